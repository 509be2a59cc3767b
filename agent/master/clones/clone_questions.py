"""Requests between masters about clones: their topics' names, and their end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, NamedTuple

from agent.clones.events import PeersResolved, TopicEnded
from agent.clones.names import digest_of
from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.topics.topic_plane import TopicPlane
from agent.wire.clones import CloneEnded, ClonesResolved, EndClone, ResolveClones
from agent.wire.messages import Answer
from agent.wire.principals import Sender
from agent.wire.topics import RemoveTopic, TopicReport

# Before the dot in the `id` of what is sent: a refusal comes with it.
PREFIX: Final = "clone"
# Questions without an answer: of older ones nobody waits for it.
MAX_OPEN_QUESTIONS: Final = 1_024
# Masters that send on to one another are asked no more for now.
MAX_MOVES: Final = 8
NOT_OURS: Final = "this master tells and ends clones for masters of its pool only"


class _Asked(NamedTuple):
    """A question to a master: about the clone of this device, or its peers. `moves`: how many
    masters said that it had moved on."""

    device: str
    iad: str
    topic: str = ""
    moves: int = 0


class CloneQuestions:
    """`partners`: the IADs whose masters may ask, and are asked. `came` gets what they answer;
    `resolve` tells the topics of devices here by their digests, as `Anchors.resolve`, and
    `when_named(then)` calls when these names will stay the same."""

    def __init__(
        self,
        iad: str,
        public: PublicPlane,
        peers: Peers,
        topics: TopicPlane,
        partners: Collection[str],
        came: Callable[[PeersResolved | TopicEnded], object],
        resolve: Callable[[Iterable[str]], tuple[str, ...]],
        when_named: Callable[[Callable[[], object]], object],
    ) -> None:
        self._iad = iad
        self._public = public
        self._peers = peers
        self._topics = topics
        self._partners = partners  # which come and go
        self._came = came
        self._resolve = resolve
        self._when_named = when_named
        self._numbers = 0
        self._asked: dict[str, _Asked] = {}  # by id
        public.takes(ResolveClones, self._asked_for_names)
        public.takes(EndClone, self._asked_to_end)
        peers.takes(ClonesResolved, self._resolved)
        peers.takes(CloneEnded, self._ended)
        peers.takes_refusals(PREFIX, self._not_taken)

    # --- asking --------------------------------------------------------------------------------

    def resolve(self, device: str, iad: str, devices: Iterable[str]) -> None:
        """Ask for the topics of a clone's peers."""
        why = ""
        if iad not in self._partners:
            known = ", ".join(sorted(self._partners)[:8]) or "none"
            why = f"{iad} is not in this master's pool; those that are: {known}"
        else:
            digests = tuple(map(digest_of, devices))
            id_ = self._id(_Asked(device, iad))
            if not self._peers.send(iad, ResolveClones(id_, self._iad, digests)):
                why = f"the master of {iad}, which has peers, cannot be reached now"
        if why:
            self._came(PeersResolved(device, iad, (), why))

    def end(self, device: str, topic: str, moves: int = 0) -> None:
        """End the topic of a clone, wherever it is."""
        if to := self._topics.went(topic):
            self._end_at(_Asked(device, to, topic, moves))
        elif self._topics.knows(topic):
            # Also one that is on its way here: that is refused, and asked for again.
            self._topics.ask(partial(self._removed, device), RemoveTopic("end", topic))
        else:
            self._came(TopicEnded(device, ok=True))

    def _end_at(self, asked: _Asked) -> None:
        iad, topic, why = asked.iad, asked.topic, ""
        if iad not in self._partners:
            why = f"is not in this master's pool; give it up: fleet topic remove {topic}"
        elif not self._peers.send(iad, EndClone(self._id(asked), self._iad, topic)):
            why = "cannot be reached now"
        if why:
            line = f"{iad}, where it lives, {why}"
            self._came(TopicEnded(asked.device, ok=False, message=line))

    def _id(self, asked: _Asked) -> str:
        self._numbers += 1
        id_ = f"{PREFIX}.{self._numbers}"
        self._asked[id_] = asked
        if len(self._asked) > MAX_OPEN_QUESTIONS:
            del self._asked[next(iter(self._asked))]
        return id_

    def _answered(self, iad: str, id_: str) -> _Asked | None:
        """Take the question that was asked of that master; no master answers for another."""
        asked = self._asked.get(id_)
        if asked is None or asked.iad != iad:
            return None
        return self._asked.pop(id_)

    def _resolved(self, iad: str, answer: ClonesResolved, _now: float) -> None:
        if (asked := self._answered(iad, answer.id)) is not None:
            self._came(PeersResolved(asked.device, iad, answer.topics))

    def _ended(self, iad: str, answer: CloneEnded, _now: float) -> None:
        # The topic is the one that was asked for, whatever stands in the answer.
        if (asked := self._answered(iad, answer.id)) is None or not asked.topic:
            return
        device, topic, moves = asked.device, asked.topic, asked.moves + 1
        if answer.moved and moves > MAX_MOVES:
            line = f"the master of {iad} says that it lives at {answer.moved}, and others deny it"
            self._came(TopicEnded(device, ok=False, message=line))
        elif answer.moved == self._iad:
            self.end(device, topic, moves)
        elif answer.moved:
            self._end_at(_Asked(device, answer.moved, topic, moves))
        elif not answer.ok:
            self._came(TopicEnded(device, ok=False, message=answer.message))
        elif self._topics.went(topic):
            # Forget where it went.
            self._topics.ask(partial(self._removed, device), RemoveTopic("end", topic))
        else:
            self._came(TopicEnded(device, ok=True))

    def _removed(self, device: str, report: TopicReport) -> None:
        self._came(TopicEnded(device, report.ok, report.message))

    def _not_taken(self, iad: str, answer: Answer, _now: float) -> None:
        if (asked := self._answered(iad, answer.id)) is not None:
            line = f"the master of {iad} refuses: {answer.message}"
            self._came(PeersResolved(asked.device, iad, (), line))
            self._came(TopicEnded(asked.device, ok=False, message=line))

    # --- asked ---------------------------------------------------------------------------------

    def _may_ask(self, sender: Sender, iad: str) -> bool:
        # Without keys a master is whom it says it is, as in all that masters say.
        named = sender.role == "anyone" or (sender.role, sender.name) == ("iad", iad)
        return named and iad in self._partners

    def _refuse(self, origin: RequestOrigin, id_: str) -> None:
        self._public.refuse(origin.identity, origin.codec, id_, "not_authorised", NOT_OURS)

    def _asked_for_names(self, origin: RequestOrigin, asked: ResolveClones, _now: float) -> None:
        if not self._may_ask(origin.sender, asked.iad):
            self._refuse(origin, asked.id)
            return
        told = ClonesResolved(asked.id, self._resolve(asked.devices))
        self._when_named(partial(self._public.reply, origin, told))

    def _asked_to_end(self, origin: RequestOrigin, asked: EndClone, _now: float) -> None:
        topic = asked.topic
        if not self._may_ask(origin.sender, asked.iad):
            self._refuse(origin, asked.id)
        elif to := self._topics.went(topic):
            self._public.reply(origin, CloneEnded(asked.id, topic, ok=False, moved=to))
        elif self._topics.home_of(topic) == asked.iad and self._topics.lives(topic):
            then = partial(self._tell_ended, origin, asked)
            self._topics.ask(then, RemoveTopic("end", topic))
        else:
            why = "it is on its way here" if self._topics.home_of(topic) == asked.iad else ""
            self._public.reply(origin, CloneEnded(asked.id, topic, ok=not why, message=why))

    def _tell_ended(self, origin: RequestOrigin, asked: EndClone, report: TopicReport) -> None:
        told = CloneEnded(asked.id, asked.topic, report.ok, message=report.message)
        self._public.reply(origin, told)
