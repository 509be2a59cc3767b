"""Data flow of an anchor: readings of its device in, outputs of the clone out."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec.structs import replace

from agent.clones.anchor import Anchor, means_of, own_part, reading_of
from agent.clones.events import (
    AnchorsInstruction,
    AskInbox,
    AskReadings,
    GiveOutput,
    InboxSaid,
    KeepDevice,
    PassOver,
    PublishReading,
    ReadingsCame,
    SaveClone,
    SaveTaken,
    Taken,
    TellOperator,
    TellReading,
)
from agent.topics.flow import RENEW_S, TELL_LOSS_S
from agent.wire.push import Gap, Notified, Subscribe, Subscribed

Instructions = list[AnchorsInstruction]


class Flow:
    """The same for every anchor; what differs is in its own. Parameters as for `Anchors`."""

    def __init__(
        self, iad: str, new_id: Callable[[], str], areas: Callable[[str], tuple[str, ...]]
    ) -> None:
        self._iad = iad
        self._new_id = new_id
        self._areas = areas

    def begin(self, anchor: Anchor) -> Instructions:
        """Its topic is kept."""
        anchor.become("opening")
        kept = KeepDevice(anchor.device, anchor.kept.clone.areas)
        return [kept, self.subscribe(anchor)]

    def subscribe(self, anchor: Anchor) -> AskInbox:
        """Open the subscription, or go on with it."""
        anchor.retry_s = anchor.renew_s = math.inf
        after = anchor.had or None
        wanted = Subscribe(anchor.kept.id, anchor.wanted, durable=True, after=after)
        return AskInbox(anchor.device, wanted)

    def inbox_said(self, anchor: Anchor, said: InboxSaid, now: float) -> Instructions:
        """The instructions that follow, in order."""
        match said.message:
            case Notified() | Gap() if anchor.state == "opening":
                return []  # sent before it asked to be sent this again
            case Notified(_, position, notification):
                if position <= anchor.taken.position:
                    return []  # sent again
                own, time_ms = own_part(notification.attributes), notification.time_ms
                outputs = anchor.taken.outputs + 1
                counts = (outputs, anchor.rounds, anchor.rounds_failed)
                anchor.taken = Taken(said.id, position, time_ms, own, *counts)
                saved = SaveTaken(anchor.device, anchor.taken)
                return [saved, GiveOutput(anchor.device, said.id, position, time_ms, own)]
            case Gap() as gap:
                return self._gap(anchor, gap, now)
            case Subscribed(state="open"):
                return self._opened(anchor, now)
            case Subscribed(state="refused", message=why):
                return self._refused(anchor, why, now)
            case None:
                if anchor.state == "opening":
                    anchor.retry_s = now + anchor.pauses.next()
                return []
        if anchor.state == "open":
            anchor.become("opening")
        return [self.subscribe(anchor)]

    def _opened(self, anchor: Anchor, now: float) -> Instructions:
        if anchor.state == "opening":
            anchor.become("open")
        anchor.pauses.reset()
        anchor.trouble = ""
        anchor.renew_s = now + RENEW_S
        if anchor.next_round_s == math.inf:
            # Clones that begin together do not read together.
            share = int(anchor.kept.id[:4], 16) / 0x10000
            anchor.next_round_s = now + min(share, 0.5) * anchor.kept.clone.every_s
        return []

    def _refused(self, anchor: Anchor, why: str, now: float) -> Instructions:
        if anchor.taken.position:
            # It is no more: perhaps nobody renewed it for too long.
            device = anchor.device
            anchor.kept = replace(anchor.kept, id=self._new_id())
            anchor.taken = replace(anchor.taken, id=anchor.kept.id, position=0)
            anchor.had = 0
            line = f"clone of {device}: its subscription is lost; what it put out may be missing"
            return [
                TellOperator(line),
                SaveClone(device, anchor.kept),
                SaveTaken(device, anchor.taken),
                self.subscribe(anchor),
            ]
        anchor.trouble = f"its subscription is refused: {why}"
        if anchor.state == "open":
            anchor.become("opening")
        anchor.retry_s = now + anchor.pauses.next()
        return []

    def _gap(self, anchor: Anchor, gap: Gap, now: float) -> Instructions:
        if gap.last <= anchor.taken.position:
            return []
        count = gap.last - gap.first + 1 if gap.lost is None else gap.lost.count
        anchor.untold += count
        anchor.taken = replace(anchor.taken, position=gap.last)
        saved = SaveTaken(anchor.device, anchor.taken)
        passed = PassOver(anchor.device, anchor.kept.id, gap.last)
        if now < anchor.told_s + TELL_LOSS_S:  # another IAD's master may say any number of them
            return [saved, passed]
        line = f"clone of {anchor.device}: {anchor.untold} of what it put out are lost"
        anchor.told_s, anchor.untold = now, 0
        return [TellOperator(line), saved, passed]

    # --- readings ------------------------------------------------------------------------------

    def round(self, anchor: Anchor, now: float) -> Instructions:
        """Read the device, unless the last round is open. Rounds that were due while nothing could
        be done are not made up for."""
        clone = anchor.kept.clone
        anchor.next_round_s += clone.every_s * (1 + (now - anchor.next_round_s) // clone.every_s)
        anchor.rounds += 1
        if anchor.round_open:
            anchor.rounds_failed += 1
            return []
        instructions: Instructions = []
        areas = self._areas(anchor.node)
        if areas and areas != clone.areas:
            anchor.kept = replace(anchor.kept, clone=replace(clone, areas=areas))
            instructions = [
                SaveClone(anchor.device, anchor.kept),
                KeepDevice(anchor.device, areas),
            ]
        anchor.round_open = True
        asked = AskReadings(anchor.device, anchor.rounds, anchor.task(self._iad))
        return [*instructions, asked]

    def readings_came(self, anchor: Anchor, event: ReadingsCame) -> Instructions:
        """Give them to the clone."""
        if not anchor.round_open:
            return []
        anchor.round_open = False
        if anchor.state not in ("opening", "open"):
            return []
        reading = reading_of(event.result)
        if not reading:
            anchor.rounds_failed += 1
            why = event.result.message or "no area had a reading"
            anchor.trouble = f"its last round brought nothing: {why}"
            return []
        anchor.trouble = ""
        told = [
            TellReading(anchor.device, area, event.time_ms, values)
            for area, values in means_of(event.result).items()
        ]
        return [*told, PublishReading(anchor.device, anchor.kept.topic.name, reading)]
