"""What honest parties do, at random, and what is promised to two of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

from agent.wire import messages as m
from agent.wire import push as p
from agent.wire import topics as t
from agent.wire import watches as w
from agent.wire.base import Message
from agent.wire.clones import CloneOf, CloneReport, CreateClone, ListClones, RemoveClone
from agent.wire.handover import ListMoves, MoveUnit, UnitKind
from agent.wire.operator import (
    AddIad,
    CreateService,
    DropService,
    ListServices,
    RemoveIad,
    StatusRequest,
)
from agent.wire.placement import PinUnit, SetPlacementMode, ShowPlacement, UnitName
from tests.fuzz.parties import IADS, TEMPERATURE
from tests.fuzz.world import World

FORMS: Final = ("series", "aggregate", "buckets")
MODES: Final = ("open", "open", "open", "frozen", "draining")
TOPICS: Final = ("notes", "floor", "kept", "climate")
AGGREGATE: Final = {"window_s": 2.0, "channels": ("temperature",)}
OFTEN: Final = (0, 1, 1, 4)
PATIENCE: Final = 4_000
HONEST_AREA: Final = "iad1/good"


class Script:
    """What honest parties do meanwhile, at random."""

    homes: tuple[str, ...] = ("node/roam", "client/app/s1", "client/app/s2")
    """Those that the operator moves."""

    def __init__(self, world: World, seed: str) -> None:
        self._world = world
        self._draw = random.Random(seed)
        self._asked = 0
        self._clones: list[str] = []
        often = {
            self._query: 12, self._watch: 2, self._subscribe: 2, self._publish: 3, self._event: 3,
            self._topic: 2, self._clone: 1, self._move: 3, self._mode: 1, self._service: 1,
            self._look: 1, self._restart: 1,
        }  # fmt: skip
        # Some kinds are left out of a history, and others come more often: what hides a fault may
        # be another action.
        draw = self._draw
        self._actions = [
            each for each, times in often.items() for _ in range(times * draw.choice(OFTEN))
        ] or list(often)

    def act(self) -> None:
        """One action."""
        self._draw.choice(self._actions)()

    def _id(self) -> str:
        self._asked += 1
        return f"a{self._asked}"

    def _client(self) -> tuple[str, str]:
        return self._draw.choice(("app", "mallory")), self._draw.choice(("iad1", *IADS))

    def _areas(self) -> tuple[str, ...]:
        known = ("iad1/good", *["iad1/bad"] * 3, "iad2/far", "iad1", "iad2", "nowhere")
        return tuple(dict.fromkeys(self._draw.sample(known, self._draw.randint(1, 3))))

    def _query(self) -> None:
        draw, form = self._draw, self._draw.choice((*FORMS, "about"))
        window = draw.choice((m.Window(last_s=60.0), m.Window(last_s=3.0, ago_s=1.0)))
        query = m.Query(
            self._id(),
            self._areas(),
            window,
            m.Slo(99.0, draw.choice((500.0, 5_000.0))),
            channels=draw.choice(((), (), ("temperature",), ("temperature", "co2"))),
            form=form,
            service=draw.choice(("default", "default", "climate")),
            takes_too_large=True,
            stale_ok=form not in ("buckets", "about") and draw.random() < 0.3,
            buckets=5 if form == "buckets" else None,
        )
        client, iad = self._client()
        self._sent(iad, query)
        self._world.ask(client, iad, query)

    def _sent(self, iad: str, query: m.Query) -> None:
        """Remember what is sent, if need be."""

    def _watch(self) -> None:
        draw, (client, iad) = self._draw, self._client()
        id_ = draw.choice(("w1", "w2"))
        trigger = draw.choice(("temperature > 20", "last(temperature) > 20", "", "on"))
        wanted = {"on": 'trigger = "hot"'} if trigger == "on" else {"trigger": trigger}
        requests: list[Message] = [
            w.Watch(
                id_,
                self._areas(),
                m.Slo(90.0, 2_000.0),
                "event" if trigger else "periodic",
                draw.choice((0.5, 1.0)),
                window_s=5.0,
                **wanted,
            ),
            w.Acknowledge(id_, draw.randrange(5)),
            w.Cancel(id_),
        ]
        self._world.ask(client, iad, draw.choice((requests[0], *requests)))

    def _subscribe(self) -> None:
        draw, (client, iad) = self._draw, self._client()
        id_ = draw.choice(("s1", "s2", "s3"))
        given = tuple(p.GivenMaster(self._world.address(each), 1.0) for each in IADS)
        masters = draw.choice(((), given))
        wanted = draw.choice(('kind = "output"', 'metric = "temperature"', 'topic = "notes"'))
        requests: list[Message] = [
            p.Subscribe(id_, wanted, durable=draw.random() < 0.5, masters=masters),
            p.AcknowledgeNotifications(id_, draw.randrange(5)),
            p.Unsubscribe(id_),
        ]
        self._world.ask(client, iad, draw.choice((requests[0], *requests)))

    def _publish(self) -> None:
        draw, (client, iad) = self._draw, self._client()
        self._asked += 1
        message = {"value": float(self._asked), "area": draw.choice(self._areas())}
        publish = t.Publish(client, draw.choice(TOPICS), message, sequence=self._asked)
        self._world.ask(client, iad, publish)

    def _event(self) -> None:
        draw = self._draw
        draw.choice(list(self._world.nodes.values())).raise_event(self._world.wall_ms)

    def _topic(self) -> None:
        draw, name = self._draw, self._draw.choice(TOPICS)
        topics = {
            "notes": t.Topic("notes"),
            "kept": t.Topic("kept", standby=True),
            "floor": t.Topic(
                "floor", ("iad1", "iad2"), ("temperature",), 1.0, "aggregate", AGGREGATE
            ),
            "climate": t.Topic("climate", processor="threshold", parameters={"when": "value > 3"}),
        }
        asked = (
            t.RemoveTopic("r", name) if draw.random() < 0.2 else t.CreateTopic("c", topics[name])
        )
        self._operate(asked)

    def _clone(self) -> None:
        draw = self._draw
        device = draw.choice(("iad1/good", "iad1/roam", "iad2/far"))
        iad, _, _node = device.partition("/")
        asked: Message = RemoveClone("r", device)
        if draw.random() < 0.8:
            peers = [each for each in ("iad2/far", "iad1/good") if each != device]
            asked = CreateClone(
                "c",
                CloneOf(
                    device,
                    "aggregate",
                    parameters=dict(AGGREGATE),
                    every_s=0.5,
                    channels=("temperature",),
                    leaves=draw.random() < 0.8,
                    peers=tuple(peers[: draw.randrange(2)]),
                ),
            )
        told = self._world.masters[iad].ask(asked)
        if isinstance(told, CloneReport):
            self._clones += [each.topic for each in told.clones]

    def _move(self) -> None:
        draw = self._draw
        units: list[tuple[UnitKind, str]] = [("processor", each) for each in TOPICS]
        units += [("processor", each) for each in self._clones[-3:]]
        units += [("home", each) for each in self.homes]
        kind, name = draw.choice(units)
        to, unit = draw.choice(IADS), UnitName(kind, name)
        move = MoveUnit("m", kind, name, to)
        asked = draw.choice((move, move, PinUnit("p", unit, to), PinUnit("p", unit)))
        for iad in IADS:  # one of them has it
            self._world.masters[iad].ask(asked)

    def _mode(self) -> None:
        iad, mode = self._draw.choice(IADS), self._draw.choice(MODES)
        if (iad, mode) == ("iad1", "draining"):
            return  # the honest pair's topic would go to a liar
        self._world.masters[iad].ask(SetPlacementMode("f", iad, mode))

    def _service(self) -> None:
        draw = self._draw
        self._operate(
            draw.choice(
                (
                    CreateService(
                        "c",
                        "climate",
                        "temperature",
                        draw.choice((IADS, ("iad2",))),
                        m.Slo(90.0, 2_000.0),
                        5.0,
                    ),
                    DropService("d", "climate"),
                    AddIad("a", "climate", "iad2"),
                    RemoveIad("x", "climate", "iad2"),
                )
            )
        )

    def _restart(self) -> None:
        if self._world.durable and self._draw.random() < 0.3:
            self._world.restart(self._draw.choice(IADS))

    def _look(self) -> None:
        asked: tuple[Message, ...] = (
            StatusRequest(), ListMoves("l"), ShowPlacement("s"), ListClones("l"), ListServices("l"),
            t.ListTopics("l"),
        )  # fmt: skip
        for each in asked:
            self._operate(each)

    def _operate(self, message: Message) -> None:
        self._world.masters[self._draw.choice(("iad1", *IADS))].ask(message)


class Pair:
    """Two honest clients of the first master: one publishes to a topic that lives there for good,
    the other wants that and each alert of the honest node, and acknowledges what it gets. With
    `moves` its subscription may be moved to any master; it follows."""

    def __init__(self, world: World, *, moves: bool = False) -> None:
        self._world = world
        self._replies = world.heard.setdefault("publisher", [])
        self._heard = world.heard.setdefault("subscriber", [])
        self._published = self._accepted = 0
        self._restarts = 0
        self._position = 0
        self._home = "iad1"
        self._masters = tuple(p.GivenMaster(world.address(each)) for each in IADS if moves)
        self._alerts: list[float] = []
        self._outputs: list[int] = []
        world.masters["iad1"].ask(t.CreateTopic("c", t.Topic("own")))
        world.masters["iad1"].ask(PinUnit("p", UnitName("processor", "own"), "iad1"))
        self._subscribe(after=None)
        while not self._heard:
            world.step()

    def act(self) -> None:
        """Publish a message, once the one before was accepted; take what came."""
        self._read()
        if self._accepted == self._published:
            self._published += 1
        self._publish()

    def _publish(self) -> None:
        number = self._published
        self._world.ask(
            "publisher",
            "iad1",
            t.Publish("p", "own", {"n": number}, sequence=number, oldest=number),
        )

    def _subscribe(self, after: int | None) -> None:
        wanted = (
            f'topic = "own" and kind = "output" or kind = "raised" and area under "{HONEST_AREA}"'
        )
        self._say(p.Subscribe("s", wanted, durable=True, after=after, masters=self._masters))

    def _say(self, message: Message) -> None:
        self._world.ask("subscriber", self._home, message)

    def _read(self) -> None:
        for _, reply in _taken(self._replies):
            if isinstance(reply, t.Published) and reply.state == "accepted":
                self._accepted = max(self._accepted, reply.sequence or 0)
        lives = True
        for iad, message in _taken(self._heard):
            assert not isinstance(message, p.Gap), message
            match message:
                case p.Notified(position=position) if position == self._position + 1:
                    self._take(message)
                case p.Subscribed(state="open" | "cancelled"):
                    pass
                case p.Subscribed(master=master) if iad == self._home:
                    lives = False
                    self._home = self._world.iad_at(master) or iad
        if not lives or self._restarts != self._world.restarts:
            self._restarts = self._world.restarts
            self._subscribe(self._position)

    def _take(self, notified: p.Notified) -> None:
        self._position += 1
        self._say(p.AcknowledgeNotifications("s", self._position))
        told = notified.notification
        if "n" in told.attributes:
            self._outputs.append(int(told.attributes["n"]))  # type: ignore[arg-type]
        elif told.origin.publisher == "iad1":  # others may say what they like
            self._alerts.append(told.attributes["value"])  # type: ignore[arg-type]

    def is_served(self) -> None:
        """Everything came, each once."""
        raised, outputs = self._world.nodes["good"].raised, list(range(1, self._published + 1))
        for step in range(1, PATIENCE + 1):
            if len(self._alerts) >= len(raised) and len(self._outputs) >= len(outputs):
                break
            if step % 400 == 0:  # it may have missed some
                self._subscribe(self._position)
                self._publish()
            self._world.step()
            self._read()
        assert sorted(self._alerts) == sorted(raised), _differences(self._alerts, raised)
        # Not in order: what a spool has is published again after a restart.
        assert sorted(self._outputs) == outputs, _differences(self._outputs, outputs)


def _differences(got: Sequence[float], wanted: Sequence[float]) -> str:
    lost, more = Counter(wanted) - Counter(got), Counter(got) - Counter(wanted)
    return f"lost {[*lost]}, too often {[*more]}"


def _taken(messages: list[tuple[str, Message]]) -> list[tuple[str, Message]]:
    came, messages[:] = messages[:], []
    return came


def serves(world: World) -> None:
    """An honest client of the honest node's area gets what that node measures."""
    for number in range(3):
        query = m.Query(
            f"honest {number}".replace(" ", "."), (HONEST_AREA,), m.Window(last_s=60.0),
            m.Slo(99.0, 60_000.0), form="aggregate",
        )  # fmt: skip
        heard = world.heard.setdefault("honest", [])
        heard.clear()
        world.ask("honest", "iad1", query)
        for _ in range(PATIENCE):
            if heard:
                break
            world.step()
        [(_, answer)] = heard
        assert isinstance(answer, m.Answer), answer
        assert answer.status == "complete", answer
        (result,) = answer.results
        assert result.aggregate is not None
        assert result.aggregate.channels["temperature"].mean == TEMPERATURE
