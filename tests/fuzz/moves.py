"""Units that another master moves here, in any order, with anything in what describes them."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from agent.alerts.dedup_window import Taken
from agent.alerts.event_state import NodeHome
from agent.alerts.inbox_handover import InboxCopy
from agent.alerts.open_faults import ChannelFaults, NodeFaults
from agent.alerts.raised_triggers import NodeTriggers, TriggerChange
from agent.master.moves.late_inboxes import Batch
from agent.master.moves.node_homes import NodeCopy
from agent.master.moves.subscriber_homes import SubscriberCopy
from agent.topics.events import Progress
from agent.topics.movable_topics import Reading, TopicCopy
from agent.topics.shadow import Checkpoint, Named
from agent.wire import handover as w
from agent.wire.codec import HEADER_BYTES, encode
from agent.wire.operator import StatusRequest
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Predicate
from agent.wire.principals import Sender
from agent.wire.push import Lost
from agent.wire.topics import Topic
from tests.fuzz.frames import Frames
from tests.fuzz.master import EACH, MasterTargets

WANTED: Final = ((Predicate("temperature", ">", (1.0,)),),)
MESSAGES: Final = [
    Notification(Origin("iad2", "h", n), 1_000, {"iad": "iad2", "topic": "t", "a": 1.0})
    for n in range(1, 6)
]
INBOX: Final = InboxCopy(
    WANTED, 1, 4, (("iad2", "h"),), (0, 0, -1, 0), (1, 2, 0, 5), (Lost("iad2", "h", 2, 3, 2),)
)
FINAL: Final = msgspec.structs.replace(INBOX, contents=(MESSAGES[1], None, MESSAGES[4]))
TOPICS: Final = (
    Topic("t"),
    Topic("t", processor="threshold", parameters={"channel": "temperature", "above": 1.0}),
    Topic("t", ("b1",), ("temperature",), 1.0, "aggregate", {"window_s": 60.0}),
)
PROGRESS: Final = Progress("inc1", 2, 1, 2, b"\x80")
HOME: Final = NodeHome(
    {"h": Taken(5, (7,))},
    {"h": Taken(5)},
    NodeFaults("h", 1, [ChannelFaults("s", "temperature", told=6, text="broken")]),
    NodeTriggers("h", [TriggerChange("hot", 6, True, 1, True, ("b1/r1",), "hot")]),
)
# What may stand in a body, by the unit that it describes.
BODIES: Final = {
    "topic": [
        TopicCopy(topic, PROGRESS, inbox, (Reading(1_000, b"\x80"),), 0.5)
        for topic in TOPICS
        for inbox in (INBOX, FINAL)
    ],
    "client": [SubscriberCopy("iad2", INBOX), SubscriberCopy("iad2", FINAL)],
    "node": [NodeCopy("iad2", ("iad1", "iad2")), HOME],
    "late": [Batch((MESSAGES[0], None), INBOX.losses)],
    "standby": [
        Named(TOPICS[0], "inc1"),
        Checkpoint(TOPICS[0], PROGRESS, FINAL, (MESSAGES[2],), 1),
    ],
}
UNITS: Final = (
    ("processor", "t", "topic"),
    ("clone", "t", "topic"),
    *[("home", f"client/app/s{n}", "client") for n in range(3)],
    *[("home", f"node/n{n}", "node") for n in range(3)],
)
EPOCHS: Final = (1, 2, 3, 2**53 - 1)
GOOD: Final = 0.5
LATER_S: Final = 70.0


class Mover:
    """Another master with this one's partner's key."""

    def __init__(self, at: MasterTargets, seed: str) -> None:
        self._at = at
        self._draw = random.Random(seed)
        self._good = {
            what: [msgspec.msgpack.encode(each) for each in bodies]
            for what, bodies in BODIES.items()
        }
        self._bad = {
            what: Frames((), f"{seed} {what}", [1, 2, 3], bodies)
            for what, bodies in self._good.items()
        }
        self._attempt = 0
        self.told: list[w.Handover] = []

    def tell(self, kind: w.UnitKind, name: str, message: w.HandoverMessage, turns: int = 1) -> None:
        """Send it, and let so much time pass."""
        told = w.Handover("handover.1", "iad2", kind, name, message)
        self.told.append(told)
        del self.told[:-20]
        self._at.master._public._serve(b"iad", encode(told), Sender("iad", "iad2"))
        self.turns(turns)

    def turns(self, count: int) -> None:
        """Timers fire, and workers answer."""
        for _ in range(count):
            self._at.now += 0.05
            self._at.frames = EACH - 1
            self._at.turn()

    def body(self, what: str) -> bytes:
        """One that is sound, or not."""
        if self._draw.random() < GOOD:
            return self._draw.choice(self._good[what])
        return self._bad[what].next()[HEADER_BYTES:]

    def move(self) -> None:
        """One move, or what is left of it."""
        draw, body = self._draw, self.body
        self._attempt += 1
        attempt, epoch = self._attempt, draw.choice(EPOCHS)
        kind, name, what = draw.choice(UNITS)
        steps = [
            w.MoveAsk(attempt, draw.choice((0.5, 5.0, 3_600.0))),
            w.MoveState(attempt, body(what)),
            w.MoveState(attempt, body(what), epoch),
            draw.choice((w.MoveSettled(epoch), w.MoveReclaimed(epoch), w.MoveAbort(attempt))),
            w.MoveLate(attempt, body("late")),
            w.MoveTook(epoch),
        ]
        for step in steps:
            if draw.random() < 0.85:
                self.tell(kind, name, step, draw.choice((1, 1, 3, 8)))
        if draw.random() < 0.05:
            self._at.now += LATER_S
        self._at.from_operator(encode(StatusRequest()))

    def stand_by(self) -> None:
        """Ask it to stand by for a topic, and tell it what there is of that."""
        draw, term = self._draw, self._at.master._standbys._leases.term
        steps: list[w.StandbyMessage] = [w.StandbyAsk(draw.choice(EPOCHS), self.body("standby"))]
        for number in (1, 2, 3):
            body, seed = self.body("standby"), draw.choice((1, number))
            update = w.StandbyUpdate(number, draw.choice((1, 2)), 1, seed, term, body)
            steps.append(update)
        steps.append(draw.choice((w.StandbyDismiss(1, 1, 1, "inc1"), w.StandbyTook(5))))
        for step in steps:
            self.tell("processor", "t", step, 2)
