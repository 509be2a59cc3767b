"""The campaign over real sockets: raw TCP connections that speak ZMTP, or nearly, and are reset.

Each socket that processes listen on is attacked, and, where a relay is between, each one that they
connect from: there somebody answers in place of the other end. What libzmq does with it ends no
process, takes no memory for good, and keeps nobody from being served.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Protocol

import psutil
from msgspec import Struct

from testkit.network import Impostor, reset
from testkit.waiting import PATIENCE_S, wait_until
from tests.fuzz.attacks import Attack, Attacks
from tests.fuzz.campaign import Finding
from tests.net import raw_zmtp

# Attacks on a socket before the next one, and until all is judged.
TURN: Final = 32
# Connections that are open at a time, of those that stay.
STAY: Final = 16
# What a process may grow by after the first turn: a leak of a few KiB a connection is more.
GROWN_BYTES: Final = 64 << 20
GREETING_BYTES: Final = 64
SHOWN_BYTES: Final = 200
ENDS_S: Final = 10.0


class Door(Struct, frozen=True):
    """A socket that a process listens on. The rest as in `Attacks`."""

    name: str
    address: str
    messages: tuple[bytes, ...]
    keyed: bool = False
    floods: bool = True


class Link(Struct, frozen=True):
    """What a process connects to, and how somebody answers in its place; `messages` as in
    `Attacks`."""

    name: str
    impersonate: Callable[[Impostor | None], object]
    messages: tuple[bytes, ...]


class Fleet(Protocol):
    """Processes that are attacked."""

    doors: Sequence[Door]
    links: Sequence[Link]

    def pids(self) -> dict[str, int]:
        """Those of the processes, by name; AssertionError with how one ended."""

    def serves(self) -> None:
        """Honest parties are served; AssertionError, or NoReplyError."""


class Report(Struct):
    """What a campaign did: connections that were made, those that were answered by an impostor, and
    by how many bytes each process has grown."""

    made: int
    answered: int
    seconds: float
    grown: dict[str, int]


class Assailant:
    """One who attacks a socket, connection by connection."""

    def __init__(self, door: Door, seed: str) -> None:
        self.name = door.name
        host, _, port = door.address.removeprefix("tcp://").rpartition(":")
        self._to = host, int(port)
        self.attacks = Attacks(
            f"{seed} {door.name}", door.messages, keyed=door.keyed, floods=door.floods
        )
        self._open: deque[socket.socket] = deque()

    def attack(self, attack: Attack) -> None:
        """Do this. OSError if nobody listens, or does not answer."""
        try:
            made = socket.create_connection(self._to, PATIENCE_S)
        except ConnectionResetError:  # as one whose parts were too many, and had its descriptor
            return
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with suppress(ConnectionError):  # it has heard enough
                _speak(made, attack)
        except OSError:
            made.close()
            raise
        if attack.end == "reset":
            raw_zmtp.reset(made)
        elif attack.end == "close":
            made.close()
        else:
            self._open.append(made)
            if len(self._open) > STAY:
                raw_zmtp.reset(self._open.popleft())

    def close(self) -> None:
        """End what stayed."""
        while self._open:
            raw_zmtp.reset(self._open.popleft())


def _speak(made: socket.socket, attack: Attack) -> None:
    for number, piece in enumerate(attack.pieces):
        made.sendall(piece)
        missing = 0 if number >= attack.awaited else 1 if number else GREETING_BYTES
        while missing:
            came = made.recv(missing)
            if not came:
                return
            missing -= len(came)


class Impostors:
    """Those who answer in place of the other ends of links, with one attack each time."""

    def __init__(self, fleet: Fleet, seed: str) -> None:
        self._fleet = fleet
        self._attacks = {
            link.name: Attacks(f"{seed} {link.name}", link.messages) for link in fleet.links
        }
        self.answered = dict.fromkeys(self._attacks, 0)

    def turn(self) -> int:
        """Let each link be answered by one at least twice, then by whom it should be; how often
        they were."""
        before = dict(self.answered)
        for link in self._fleet.links:
            link.impersonate(self._impostor(link.name))
        try:
            wait_until(
                lambda: {name for name in before if self.answered[name] < before[name] + 2},
                lambda left: not left or not self._fleet.pids(),
                what="not answered by an impostor:",
            )
        finally:
            for link in self._fleet.links:
                link.impersonate(None)
        return sum(self.answered.values()) - sum(before.values())

    def _impostor(self, name: str) -> Impostor:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            attack = self._attacks[name].next()
            with suppress(OSError, EOFError):  # it has heard enough
                for number, piece in enumerate(attack.pieces):
                    writer.write(piece)
                    await writer.drain()
                    if number < attack.awaited:
                        await reader.readexactly(1 if number else GREETING_BYTES)
            self.answered[name] += 1
            if attack.end != "close":
                reset(writer)

        return speak


def run(
    fleet: Fleet, connections: int, seed: str, *, told: Callable[[int], object] = lambda _: None
) -> Report:
    """Make so many connections to all sockets, with impostors in between; Finding if a process
    ends, grows, or serves honest parties no more."""
    assailants = [Assailant(door, seed) for door in fleet.doors]
    impostors = Impostors(fleet, seed)
    begun_s, made, answered = time.monotonic(), 0, 0
    first: dict[str, int] = {}
    grown: dict[str, int] = {}
    try:
        while made < connections:
            for each in assailants:
                for _ in range(min(TURN, connections - made)):
                    made += 1
                    attack = each.attacks.next()
                    with _found(f"{each.name}, connection {made:,} of seed {seed!r}", attack):
                        try:
                            each.attack(attack)
                        except ConnectionRefusedError:  # one has ended, or will have soon
                            wait_until(fleet.pids, lambda _: False, patience_s=ENDS_S)
                        fleet.pids()
            with _found(f"after {made:,} connections of seed {seed!r}", attack):
                answered += impostors.turn()
                fleet.serves()
                grown = _grown(fleet, first)
            told(made)
    finally:
        for each in assailants:
            each.close()
    return Report(made, answered, time.monotonic() - begun_s, grown)


def _grown(fleet: Fleet, first: dict[str, int]) -> dict[str, int]:
    """By how many bytes processes have grown since the first time; AssertionError if too many."""
    now = {name: psutil.Process(pid).memory_info().rss for name, pid in fleet.pids().items()}
    grown = {name: size - first.setdefault(name, size) for name, size in now.items()}
    for name, size in grown.items():
        assert size <= GROWN_BYTES, f"{name} has grown by {size >> 20} MiB"
    return grown


@contextmanager
def _found(at: str, last: Attack) -> Iterator[None]:
    """Finding, with when and the bytes of the last attack, a line for each piece, if something
    fails. The cause may also be one before it."""
    try:
        yield
    except Exception as error:
        said = [f"{at}: {type(error).__name__}: {error}", *map(_shown, last.pieces), last.end]
        raise Finding("\n".join(said)) from error


def _shown(piece: bytes) -> str:
    """In hexadecimal, its beginning if it is long: the seed gives the rest."""
    rest = len(piece) - SHOWN_BYTES
    return piece[:SHOWN_BYTES].hex() + (f" and {rest} bytes" if rest > 0 else "")
