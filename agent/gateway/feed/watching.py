"""The thread that has the fleet watched while somebody looks: one client, a watch a service."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from random import random
from typing import Final, Protocol

import zmq
from msgspec import UNSET, Struct

from agent.client import Client, ConnectionCutError, NoReplyError, Rounds, WatchError
from agent.gateway.feed.frames import Link
from agent.runtime.back_off import BackOff
from agent.runtime.console import Say
from agent.wire.about import ServiceInfo
from agent.wire.messages import Answer, Slo

POLL_S: Final = 0.2
# What the master knows of areas is asked again so often.
ABOUT_EVERY_S: Final = 30.0
ABOUT_MS: Final = 3_000.0
# The words of triggers that were raised just now are asked for so often, of so many areas.
WORDS_EVERY_S: Final = 1.0
MAX_WORDS: Final = 64
# Before the first round there is one answer at once, for this last time at least.
FIRST_S: Final = 60.0
MAX_FIRST_MS: Final = 4_000.0
# A silent master is given up, and asked by another connection.
PATIENCE_S: Final = 20.0
CANCEL_MS: Final = 300.0
MAX_PAUSE_S: Final = 10.0
LABEL: Final = "console"
DEFAULT: Final = "default"
# Other parties set services up, too, and a master bounds the watches of a client (100).
MAX_WATCHED: Final = 32
MAX_SAID: Final = 64  # others choose the names in them
# What may go wrong with a master that is away, restarts, or refuses.
FAILURES: Final = (NoReplyError, WatchError, ValueError, OSError, zmq.ZMQError)


class Told(Protocol):
    """The receiver of updates: the hub, in its loop."""

    def took(self, service: str, answer: Answer) -> None:
        """A round of the watch of a service."""

    def learned(self, about: Answer) -> None:
        """The master's knowledge of areas."""

    def learned_words(self, about: Answer) -> None:
        """Its knowledge of those where a trigger was raised just now."""

    def asks(self, services: Collection[str]) -> None:
        """These services are watched from now on, and no others."""

    def began(self) -> None:
        """Every service has given its first answer."""

    def told(self, state: Link, message: str = "") -> None:
        """How the link to the master is."""

    def lost(self, message: str) -> None:
        """The link to the master is gone."""


class Watched(Struct, frozen=True):
    """The subject of a watch; no `services`, or `areas`: all that the master names."""

    services: tuple[str, ...]
    areas: tuple[str, ...]
    every_s: float
    slo: Slo


class Watching:
    """Starts and ends the thread. `connect` makes its client; `say` takes lines for the operator
    about services that are not watched, each once."""

    def __init__(
        self, connect: Callable[[], Client], watched: Watched, tell: Told, say: Say
    ) -> None:
        self._say = say
        self._said = set[str]()
        self._connect = connect
        self._watched = watched
        self._tell = tell
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._wordless: deque[str] = deque(maxlen=MAX_WORDS)

    def ask_words(self, areas: Iterable[str]) -> None:
        """Ask soon what is raised in these areas; of many the last."""
        self._wordless.extend(areas)

    def start(self) -> None:
        """Begin to watch."""
        self._stop = threading.Event()
        # A daemon, so that a master which keeps it waiting does not keep the gateway.
        self._thread = threading.Thread(
            target=self._run, args=(self._stop,), name="watch", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End soon."""
        self._stop.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        pauses = BackOff(0.5, MAX_PAUSE_S, jitter=random)
        while not stop.is_set():
            began_s = time.monotonic()
            try:
                with self._connect() as client:
                    turn = _Turn(
                        client, self._watched, self._tell, stop, self._wordless, self._left_out
                    )
                    turn.run()
            except FAILURES as error:
                if not stop.is_set():
                    why = " ".join(str(error).split())
                    if isinstance(error, NoReplyError):
                        self._tell.lost(why)
                    else:
                        self._tell.told("away", why)
            if time.monotonic() - began_s > MAX_PAUSE_S:
                pauses.reset()
            stop.wait(pauses.next())

    def _left_out(self, line: str) -> None:
        if line not in self._said and len(self._said) < MAX_SAID:
            self._said.add(line)
            self._say(f"{line}; console.services names those that are to be watched\n")


class _Turn:
    """One connection to the master, until something fails or the services change."""

    def __init__(
        self,
        client: Client,
        watched: Watched,
        tell: Told,
        stop: threading.Event,
        wordless: deque[str],
        left_out: Callable[[str], object],
    ) -> None:
        self._wordless = wordless
        self._left_out = left_out
        self._client = client
        self._watched = watched
        self._tell = tell
        self._stop = stop

    def run(self) -> None:
        asked = self._learn()
        self._tell.asks(tuple(asked))
        rounds: dict[str, Rounds] = {}
        try:
            for service, areas in asked.items():
                if self._stop.is_set():
                    break
                self._first(service, areas)
                # Each may take seconds: those before it are not to grow stale meanwhile.
                self._take_rounds(rounds, 0.0)
                if not self._open_or_tell(rounds, service, areas):
                    break
            if not self._stop.is_set():
                self._tell.began()
            self._follow(asked, rounds)
        except ConnectionCutError:
            rounds.clear()  # nobody is there to cancel them
            raise
        finally:
            for each in rounds.values():
                with suppress(*FAILURES):
                    each.cancel(CANCEL_MS)

    def _follow(self, asked: dict[str, tuple[str, ...]], rounds: dict[str, Rounds]) -> None:
        learnt_s = words_s = time.monotonic()
        while not self._stop.is_set():
            self._take_rounds(rounds, POLL_S)
            if not rounds:
                self._stop.wait(POLL_S)
            if time.monotonic() - learnt_s > ABOUT_EVERY_S:
                learnt_s = time.monotonic()
                if self._learn() != asked:
                    return
                for service in [each for each in asked if each not in rounds]:
                    if not self._open_or_tell(rounds, service, asked[service]):
                        break
            if self._wordless and time.monotonic() - words_s > WORDS_EVERY_S:
                words_s = time.monotonic()
                self._learn_words()

    def _take_rounds(self, rounds: Mapping[str, Rounds], wait_s: float) -> None:
        for service, each in rounds.items():
            if (found := each.wait(wait_s / len(rounds))) is not None:
                self._took(service, found.answer)

    def _learn(self) -> dict[str, tuple[str, ...]]:
        """Ask what there is; the areas to watch of each service."""
        about = self._client.about(timeout_ms=ABOUT_MS, label=LABEL)
        if about.status == "refused":
            if about.reason == "malformed" and self._watched.areas:  # an earlier version's master
                names = self._watched.services or ("default",)
                return dict.fromkeys(names, self._watched.areas)
            raise WatchError(about.message or about.reason or "refused")
        self._tell.learned(about)
        told = {} if about.services is UNSET else {each.name: each for each in about.services}
        names = self._watched.services or chosen(told, MAX_WATCHED)
        if not names:
            raise WatchError("this client may ask no service of the master")
        if not self._watched.services and len(told) > len(names):
            self._left_out(f"{len(names)} services of {len(told)} are watched")
        areas = {name: told[name].areas if name in told else () for name in names}
        found = {name: self._watched.areas or areas[name] for name in names}
        if not any(found.values()):
            raise WatchError("the master knows no areas yet")
        return {name: each for name, each in found.items() if each}

    def _learn_words(self) -> None:
        areas = list[str]()
        while self._wordless:
            areas.append(self._wordless.popleft())
        about = self._client.about(tuple(dict.fromkeys(areas)), timeout_ms=ABOUT_MS, label=LABEL)
        if about.status != "refused":
            self._tell.learned_words(about)

    def _first(self, service: str, areas: tuple[str, ...]) -> None:
        """The current state, before the first round."""
        slo, every_s = self._watched.slo, self._watched.every_s
        answer = self._client.query(
            areas,
            last_s=max(FIRST_S, 2.0 * every_s),
            percentile=slo.percentile,
            latency_ms=slo.latency_ms,
            form="aggregate",
            timeout_ms=min(MAX_FIRST_MS, 2.0 * slo.latency_ms),
            service=service,
            label=LABEL,
        )
        self._took(service, answer)

    def _open_or_tell(
        self, rounds: dict[str, Rounds], service: str, areas: tuple[str, ...]
    ) -> bool:
        """Whether the master takes one more watch; WatchError if it takes none at all."""
        try:
            rounds[service] = self._open(service, areas)
        except WatchError as error:
            if not rounds:
                raise
            self._left_out(f"service {service} is not watched: {error}")
            return False
        return True

    def _open(self, service: str, areas: tuple[str, ...]) -> Rounds:
        rounds = self._client.watch(
            areas,
            interval_s=self._watched.every_s,
            style="streaming",
            percentile=self._watched.slo.percentile,
            latency_ms=self._watched.slo.latency_ms,
            form="aggregate",
            service=service,
            label=LABEL,
            patience_s=PATIENCE_S,
            until_cut=True,
        )
        rounds.on_word = self._heard_word
        return rounds

    def _heard_word(self, word: str) -> None:
        self._tell.told("away", word)

    def _took(self, service: str, answer: Answer) -> None:
        if self._stop.is_set():
            return
        if answer.status == "refused":
            self._tell.told("away", answer.message or answer.reason or "refused")
        else:
            self._tell.took(service, answer)


def chosen(told: Mapping[str, ServiceInfo], most: int) -> tuple[str, ...]:
    """So many of the services: `default`, then those that give a channel of an area that none
    before gives, then others. O(areas)."""
    if len(told) <= most:
        return tuple(told)
    given: set[tuple[str, str]] = set()
    new, others = list[str](), list[str]()
    for name in sorted(told, key=lambda each: each != DEFAULT):
        info = told[name]
        gives = {
            (info.capability, area)
            for area in info.areas
            if ("", area) not in given  # all channels
        }
        (others if gives <= given else new).append(name)
        given |= gives
    return tuple([*new, *others][:most])


class FromThread:
    """Tells the hub in its loop what another thread says."""

    def __init__(self, call: Callable[..., object], tell: Told) -> None:
        """`call` is the loop's `call_soon_threadsafe`."""
        self._call = call
        self._tell = tell

    def took(self, service: str, answer: Answer) -> None:
        """As the hub's."""
        self._soon(self._tell.took, service, answer)

    def learned(self, about: Answer) -> None:
        """As the hub's."""
        self._soon(self._tell.learned, about)

    def learned_words(self, about: Answer) -> None:
        """As the hub's."""
        self._soon(self._tell.learned_words, about)

    def asks(self, services: Collection[str]) -> None:
        """As the hub's."""
        self._soon(self._tell.asks, services)

    def began(self) -> None:
        """As the hub's."""
        self._soon(self._tell.began)

    def told(self, state: Link, message: str = "") -> None:
        """As the hub's."""
        self._soon(self._tell.told, state, message)

    def lost(self, message: str) -> None:
        """As the hub's."""
        self._soon(self._tell.lost, message)

    def _soon(self, *call: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._call(*call)


def configured(
    services: tuple[str, ...], areas: tuple[str, ...], every_s: float, latency_ms: float
) -> Watched:
    """Watches of a configuration, with an objective that lets all other queries go first."""
    return Watched(services, areas, every_s, Slo(99.0, latency_ms))
