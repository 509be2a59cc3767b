"""Topics that live at two masters, because the state of one was put back from an older copy.

Each move and each take-over has a later epoch. So the master with the later one has the topic, and
the other, which cannot know, is told so when its facts claim it.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from agent.master.moves.handover_plane import HandoverPlane
from agent.master.moves.topic_moves import TopicMoves
from agent.master.standby.guards import KIND
from agent.master.topics.topic_shadows import TopicShadows
from agent.placement.handover.events import require_epoch
from agent.placement.world import Unit
from agent.runtime.console import Say
from agent.wire.handover import StandbyTook
from agent.wire.placement import PlacementFacts

# Topics of which one master is told at once: those that remain it claims again.
MOST_TOLD: Final = 64


class OlderCopies:
    """The topics of one master, `iad`; `wall` reads the wall clock in seconds since 1970 UTC."""

    def __init__(
        self,
        iad: str,
        handovers: HandoverPlane,
        shadows: TopicShadows,
        moves: TopicMoves,
        wall: Callable[[], float],
        say: Say,
    ) -> None:
        self._iad = iad
        self._handovers = handovers
        self._shadows = shadows
        self._moves = moves
        self._wall = wall
        self._say = say

    def claimed(self, facts: PlacementFacts) -> None:
        """Tell a master which of its topics live here, since a move or a take-over. O(topics)."""
        here = [Unit(KIND, each.name) for each in facts.topics]
        epochs = {each: self._handovers.epoch(each) for each in here if self._moves.lives(each)}
        moved = [(unit, epoch) for unit, epoch in epochs.items() if epoch]
        for unit, epoch in moved[:MOST_TOLD]:
            incarnation = self._shadows.incarnation(unit.name)
            took = StandbyTook(epoch, proof(incarnation, self._iad, facts.iad, epoch))
            self._handovers.tell(facts.iad, unit, took)

    def heard(self, unit: Unit, sender: str, took: StandbyTook) -> None:
        """Let a topic go that lives there, in a later epoch than here: outputs made here since then
        do not leave any more, and what only its inbox here has goes there."""
        if not self._moves.lives(unit) or self._handovers.moving(unit):
            return
        incarnation = self._shadows.incarnation(unit.name)
        true = proof(incarnation, sender, self._iad, took.epoch).encode()
        is_true = compare_digest(true, took.proof.encode())
        if took.epoch <= self._handovers.epoch(unit) or not is_true:
            return
        try:
            require_epoch(took.epoch, self._wall())
        except ValueError:
            return
        self._say(
            f"{unit} is let go: it lives at {sender} since a later move than this master knows of; "
            "its state was perhaps put back from an older copy\n"
        )
        self._shadows.disown(unit.name, incarnation)
        self._handovers.lost(unit, took.epoch, sender)


def proof(incarnation: str, sender: str, to: str, epoch: int) -> str:
    """What only a master can say that had the topic, or stood by for it: nobody else knows the
    `incarnation`, and who is told this does not learn it."""
    return blake2b(f"{incarnation} {sender} {to} {epoch}".encode(), digest_size=16).hexdigest()
