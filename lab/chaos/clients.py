"""The clients of a history, each in a thread of its own: they go on whatever happens to masters."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, Final, Self, TypeVar

from msgspec import Struct

from agent.alerts.notifications import NUMBERS
from agent.client import Client, NoReplyError, Operator, SubscriptionError, WatchError
from agent.client.publishing import PublishError
from agent.client.watches import Rounds
from agent.net.keys import KeyFiles
from agent.wire.clones import CloneStatus, ListClones
from agent.wire.handover import MoveUnit
from agent.wire.messages import Query, Slo, Window
from agent.wire.push import Notified
from agent.wire.topics import ListTopics, TopicStatus
from fleet.testbed.keyring import OPERATOR
from fleet.testbed.page import GATEWAY
from lab.chaos.checker import ALERTED, ROUND_S, STREAM, TRAVEL_S
from lab.chaos.history import Alert, Asked, Claim, CloneOutput, History, Output, RoundSeen

# Longer than any run.
PATIENCE_S: Final = 30 * 86_400.0
OPEN_S: Final = 60.0
LOOK_S: Final = 0.2
ASK_EVERY_S: Final = 0.15
GREEDY_EVERY_S: Final = 0.01
PUBLISH_EVERY_S: Final = 0.1
MOVE_EVERY_S: Final = 2.0
MOVE_CLONE_EVERY_S: Final = 5.0
OPERATOR_MS: Final = 500.0
TOPIC: Final = "counted"
# What clients are called, where they need keys. With keys a watch or subscription is its client's,
# on whatever connection, without it is the connection's.
ASKER, WATCHER, HEARER, TAKER, TELLER, PUBLISHER = PERSONS = (
    "asker", "watcher", "hearer", "taker", "teller", "publisher",
)  # fmt: skip
STATES: Final = frozenset({"ready", "running"})
# What each watch is opened with.
WATCHES: Final[dict[str, dict[str, Any]]] = {
    STREAM: {"style": "streaming"},
    "periodic": {"style": "periodic", "window_s": 5.0},
    ALERTED: {"style": "event", "on": 'trigger = "hot"'},
}


Opened = TypeVar("Opened")


def _no_keys(_person: str, _iad: str) -> KeyFiles | None:
    return None


class Reached(Struct, frozen=True):
    """How clients reach a fleet: masters' sockets for clients and for operators, by IAD; the
    gateway's host:port, with a token; the service that is asked; topics of clones, with the homes
    of their devices; the keys of a client, or of the operator, for a master."""

    publics: dict[str, str]
    operators: dict[str, str]
    gateway: tuple[str, str]
    service: str = "default"
    clones: dict[str, str] = {}
    keys: Callable[[str, str], KeyFiles | None] = _no_keys

    def client(self, person: str, iad: str) -> Client:
        """A client of that master."""
        return Client(self.publics[iad], self.keys(person, iad))

    def operator(self, iad: str) -> Operator:
        """Its operator."""
        return Operator(self.operators[iad], self.keys(OPERATOR, iad))


class Clients:
    """Clients that ask every master and the gateway, watches, two durable subscriptions, a
    publisher, and an operator who moves the topic; where a rate was agreed, one that exceeds it;
    where there are clones, a subscription to what they put out, and an operator who moves them."""

    def __init__(
        self,
        history: History,
        reached: Reached,
        areas: Sequence[str],
        ask_every_s: float = ASK_EVERY_S,
    ) -> None:
        self._history = history
        self._reached = reached
        self._areas = areas
        self._ask_every_s = ask_every_s
        self._faults_over = threading.Event()
        self._over = threading.Event()
        self.failed: list[BaseException] = []
        first, second, *_, last = reached.publics
        self._hearing = [self._thread(self._hear, first), self._thread(self._take_outputs, last)]
        if reached.clones:
            self._hearing.append(self._thread(self._hear_clones, last))
        self._watching = [self._thread(self._watch, second, name) for name in WATCHES]
        # Those who stay connected have begun when the faults do.
        self._open = threading.Barrier(len(self._hearing) + len(self._watching) + 1)
        self._asking = [
            *(self._thread(self._ask, master) for master in reached.publics),
            self._thread(self._publish, last),
            self._thread(self._operate),
            self._thread(self._ask_gateway),
        ]
        if history.agreed is not None:
            self._asking.append(self._thread(self._ask_too_much, first))
        if reached.clones:
            self._asking.append(self._thread(self._move_clones))

    def __enter__(self) -> Self:
        self._begun_s = time.monotonic()
        for each in (*self._watching, *self._hearing):
            each.start()
        with suppress(threading.BrokenBarrierError):  # one has failed
            self._open.wait(OPEN_S)
        # What others do begins with the history, whose times count from here.
        self._begun_s = time.monotonic()
        for each in self._asking:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ask_no_more()
        self._over.set()
        for each in self._hearing:
            each.join()

    def now_s(self) -> float:
        """Seconds since the start of the history."""
        return time.monotonic() - self._begun_s

    def ask_no_more(self) -> None:
        """Publish, ask and watch no more; what was published and raised may still come."""
        self._faults_over.set()
        for each in (*self._asking, *self._watching):
            each.join()

    def _thread(self, work: Callable[..., None], *of: str) -> threading.Thread:
        return threading.Thread(target=self._guarded, args=(work, *of))

    def _guarded(self, work: Callable[..., None], *of: str) -> None:
        try:
            work(*of)
        except BaseException as error:  # noqa: BLE001  # raised in the main thread
            self.failed.append(error)

    # --- queries --------------------------------------------------------------------------------

    def _ask(self, master: str) -> None:
        draw = random.Random(f"{self._history.seed} {master}")
        with self._reached.client(ASKER, master) as client:
            while not self._faults_over.wait(self._ask_every_s):
                areas = tuple(sorted(draw.sample(self._areas, draw.choice((1, 3)))))
                self._query(client, master, areas)

    def _ask_too_much(self, master: str) -> None:
        with self._reached.client(ASKER, master) as client:
            while not self._faults_over.wait(GREEDY_EVERY_S):
                self._query(client, master, tuple(self._areas))

    def _query(self, client: Client, master: str, areas: tuple[str, ...]) -> None:
        latency_ms, timeout_ms = self._history.latency_ms, self._history.timeout_ms
        query = Query(
            "",
            areas,
            Window(last_s=5.0),
            Slo(99.0, latency_ms),
            form="aggregate",
            timeout_ms=timeout_ms,
            service=self._reached.service,
        )
        at_s = self.now_s()
        try:
            answer = client.answer_to(query, timeout_ms + TRAVEL_S * 1e3)
        except NoReplyError:
            seen = Asked(at_s, self.now_s(), master, areas, "no reply")
        else:
            seen = Asked(
                at_s,
                self.now_s(),
                master,
                areas,
                answer.status,
                tuple([each.area for each in answer.results]),
                tuple([(each.area, each.reason) for each in answer.missing]),
                answer.reason or "",
            )
        self._history.asked.append(seen)

    def _ask_gateway(self) -> None:
        draw = random.Random(f"{self._history.seed} gateway")
        while not self._faults_over.wait(self._ask_every_s):
            areas = tuple(sorted(draw.sample(self._areas, draw.choice((1, 3)))))
            at_s = self.now_s()
            status, answered, gaps = _over_http(self._reached, areas, self._history)
            seen = Asked(at_s, self.now_s(), GATEWAY, areas, status, answered, gaps)
            self._history.asked.append(seen)

    # --- watches --------------------------------------------------------------------------------

    def _watch(self, master: str, name: str) -> None:
        def watch(client: Client) -> Rounds:
            return client.watch(
                ["b1"],
                interval_s=ROUND_S,
                latency_ms=self._history.latency_ms,
                form="aggregate",
                service=self._reached.service,
                patience_s=PATIENCE_S,
                **WATCHES[name],
            )

        with (
            self._reached.client(WATCHER, master) as client,
            opened(partial(watch, client)) as rounds,
        ):
            self._open.wait(OPEN_S)
            while not self._faults_over.is_set():
                try:
                    each = rounds.wait(LOOK_S)
                except (NoReplyError, WatchError):
                    self._faults_over.wait(LOOK_S)
                    continue
                if each is not None:
                    seen = RoundSeen(name, each.number, each.previous, each.start_ms, each.end_ms)
                    self._history.rounds.append(seen)

    # --- subscriptions and a topic --------------------------------------------------------------

    def _hear(self, master: str) -> None:
        def take(each: Notified) -> Alert:
            told = each.notification
            origin = told.origin
            area = str(told.attributes["area"])
            return Alert(each.position, area, origin.history, origin.sequence // NUMBERS)

        self._subscribe(
            master,
            'trigger = "hot"',
            lambda each: self._history.alerts.append(
                take(each) if isinstance(each, Notified) else Alert(0)
            ),
            HEARER,
        )

    def _take_outputs(self, master: str) -> None:
        def take(each: Notified) -> Output:
            told = each.notification.attributes
            return Output(each.position, int(told["n"]), int(told["seen"]))

        self._subscribe(
            master,
            f'topic = "{TOPIC}" and kind = "output"',
            lambda each: self._history.outputs.append(
                take(each) if isinstance(each, Notified) else Output(0, 0, 0)
            ),
            TAKER,
        )

    def _hear_clones(self, master: str) -> None:
        def take(each: Notified) -> CloneOutput:
            told = each.notification.attributes
            return CloneOutput(each.position, str(told["topic"]), int(told["n"]))

        topics = " or ".join(f'topic = "{topic}"' for topic in self._reached.clones)
        self._subscribe(
            master,
            f'kind = "output" and ({topics})',
            lambda each: self._history.clone_outputs.append(
                take(each) if isinstance(each, Notified) else CloneOutput(0)
            ),
            TELLER,
        )

    def _subscribe(
        self, master: str, wanted: str, take: Callable[[object], None], person: str
    ) -> None:
        with self._reached.client(person, master) as client:
            heard = opened(
                lambda: client.subscribe(wanted, id=person, durable=True, patience_s=PATIENCE_S)
            )
            self._open.wait(OPEN_S)
            while not self._over.is_set():
                try:
                    each = heard.wait(LOOK_S)
                except (NoReplyError, SubscriptionError):
                    self._over.wait(LOOK_S)
                    continue
                if each is not None:
                    take(each)

    def _publish(self, master: str) -> None:
        with self._reached.client(PUBLISHER, master) as client:
            for n in itertools.count(1):
                while not self._faults_over.wait(PUBLISH_EVERY_S):
                    try:
                        client.publish(TOPIC, {"n": n}, id="publisher", sequence=n)
                        break
                    except (NoReplyError, PublishError):
                        continue  # the same number is the same message
                else:
                    return
                self._history.published.append(n)

    def _operate(self) -> None:
        """Look who has the topic, again and again, and have it move."""
        draw = random.Random(f"{self._history.seed} moves")
        moved_s = self.now_s()
        while not self._faults_over.wait(LOOK_S):
            owners = [name for name in self._reached.operators if self._claims(name)]
            if len(owners) == 1 and self.now_s() - moved_s > MOVE_EVERY_S:
                moved_s = self.now_s()
                target = draw.choice(
                    [each for each in self._reached.operators if each != owners[0]]
                )
                self._move(TOPIC, owners[0], target)

    def _move_clones(self) -> None:
        """Have one of them move, again and again, from wherever it lives."""
        draw = random.Random(f"{self._history.seed} clones")
        while not self._faults_over.wait(MOVE_CLONE_EVERY_S):
            topic, home = draw.choice([*self._reached.clones.items()])
            found = clones_of(self._reached, home).get(topic)
            if found is not None and found.iad in self._reached.operators:
                target = draw.choice([e for e in self._reached.operators if e != found.iad])
                self._move(topic, found.iad, target)

    def _claims(self, master: str) -> bool:
        at_s = self.now_s()
        if not (has := has_topic(self._reached, master)):
            return has
        self._history.claims.append(Claim(at_s, self.now_s(), master))
        return has

    def _move(self, unit: str, source: str, target: str) -> None:
        at_s = self.now_s()
        with self._reached.operator(source) as operator:
            try:
                report = operator.ask_move(
                    MoveUnit("chaos", "processor", unit, target), OPERATOR_MS
                )
                said = "begun" if report.ok else report.message
            except NoReplyError:
                said = "no reply"
        self._history.moves.append(f"{at_s:.1f} s: {unit} from {source} to {target}: {said}")


def opened(begin: Callable[[], Opened]) -> Opened:
    """What `begin` returns; a master that is silent on a busy machine is asked again, for as long
    as a fleet may take to start."""
    give_up_s = time.monotonic() + OPEN_S
    while True:
        try:
            return begin()
        except NoReplyError:
            if time.monotonic() > give_up_s:
                raise


def has_topic(reached: Reached, iad: str, timeout_ms: float = OPERATOR_MS) -> bool:
    """Whether that master says that it has the topic; not, if it is silent."""
    with reached.operator(iad) as asked, suppress(NoReplyError):
        topics = asked.ask_topic(ListTopics("chaos"), timeout_ms).topics
        return any(_is_kept(each) for each in topics)
    return False


def clones_of(
    reached: Reached, iad: str, timeout_ms: float = OPERATOR_MS
) -> dict[str, CloneStatus]:
    """The clones of that master's devices, by topic; none if it is silent."""
    with reached.operator(iad) as asked, suppress(NoReplyError):
        found = asked.ask_clone(ListClones("chaos"), timeout_ms).clones
        return {each.topic: each for each in found}
    return {}


def _is_kept(status: TopicStatus) -> bool:
    return status.topic.name == TOPIC and status.state in STATES


def _over_http(
    reached: Reached, areas: Sequence[str], history: History
) -> tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The status of an answer, areas with a result, and gaps with their reasons."""
    address, token = reached.gateway
    body = {
        "areas": areas,
        "service": reached.service,
        "window": {"last_s": 5.0},
        "slo": {"percentile": 99.0, "latency_ms": history.latency_ms},
        "timeout_ms": history.timeout_ms,
        "form": "aggregate",
    }
    # The gateway itself waits a second beyond the answer timeout.
    limit_s = history.timeout_ms / 1e3 + 1.0 + TRAVEL_S
    with closing(http.client.HTTPConnection(address, timeout=limit_s)) as connection:
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request("POST", "/api/v1/query", json.dumps(body), headers)
            reply = connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            return "no reply", (), ()
    if reply.status != http.client.OK:
        return f"http {reply.status}", (), ()
    answer = json.loads(text)
    gaps = tuple([(each["area"], each["reason"]) for each in answer.get("missing", ())])
    return answer["status"], tuple([each["area"] for each in answer.get("results", ())]), gaps
