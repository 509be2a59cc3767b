"""Discovery of 1,000 matching IADs among 2,000, against a plain dict lookup of the same records.

python -m bench.directory

First in memory, which DSSP reports as below 1 ms; then the whole request over the real socket of a
registration service: encode, two frames, decode, look up, encode, decode.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import zmq

from agent.directory.directory import Directory
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, encode
from agent.wire.directory import (
    Account,
    DirectoryEntry,
    DirectoryReply,
    Discover,
    Found,
    Offering,
    Register,
    Registered,
)
from bench.processes import process
from bench.report import Result, interleaved, report, result
from fleet.testbed.ports import free_address

MATCHING = 1_000
OTHERS = 1_000
CAMPUSES = 10
LOOKUPS = 20
ROUNDS = 25
UNDER_WAY = 50  # registrations in flight, each of which waits for the disk
KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"


def registrations() -> list[Register]:
    """Registrations: one building in the city for each matching IAD, elsewhere for the others."""
    places = [f"city/campus{n % CAMPUSES}/b{n}" for n in range(MATCHING)]
    places += [f"country/village{n}" for n in range(OTHERS)]
    return [
        Register(
            f"r{n}",
            f"iad{n}",
            f"tcp://10.0.{n // 250}.{n % 250}:5700",
            (Offering("temperature", (place,)), Offering("humidity", (place,))),
            3_600.0,
            (f"{n:04d}{KEY[4:]}",),  # keys are unique among parties
        )
        for n, place in enumerate(places)
    ]


def entry(number: int, one: Register) -> DirectoryEntry:
    """The directory's entry for the registration."""
    account = Account(one.iad, "iad", one.keys)
    return DirectoryEntry(number, account, one.address, one.offerings, one.lease_s)


def seconds_of(action: Callable[[], object]) -> float:
    """Seconds per call, over LOOKUPS calls."""
    started = time.perf_counter()
    for _ in range(LOOKUPS):
        action()
    return (time.perf_counter() - started) / LOOKUPS


def in_memory(registered: Sequence[Register]) -> list[Result]:
    """Lookups: one asked area with its descendants, and ten that are merged."""
    entries = [entry(number, one) for number, one in enumerate(registered, start=1)]
    directory = Directory("bench", len(entries), entries)
    plain = {one.account.name: one for one in entries}
    names = [one.account.name for one in entries[:MATCHING]]
    campuses = [f"city/campus{n}" for n in range(CAMPUSES)]
    for asked in (["city"], campuses):
        candidates, uncovered = directory.discover("temperature", asked)
        assert (len(candidates), uncovered) == (MATCHING, ())
    one_s, ten_s, dict_s = interleaved(
        ROUNDS,
        lambda: seconds_of(lambda: directory.discover("temperature", ["city"])),
        lambda: seconds_of(lambda: directory.discover("temperature", campuses)),
        lambda: seconds_of(lambda: [plain[name] for name in names]),
    )
    peer = "plain dict lookup of the same 1,000 records"
    return [
        result("directory-1-area", one_s, "ms", peer, dict_s),
        result("directory-10-areas", ten_s, "ms", peer, dict_s),
    ]


class Asker:
    """A DEALER to the registration service that gives up after 20 s."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVTIMEO, 20_000)
        self._socket.connect(address)
        self._decoder: Decoder[DirectoryReply] = Decoder(DirectoryReply, MAX_RESULT_BYTES)
        self.decode = self._decoder.decode
        self.send = self._socket.send
        self.receive = self._socket.recv

    def register(self, all_of_them: Sequence[Register]) -> None:
        """Register, a few in flight at a time."""
        for start in range(0, len(all_of_them), UNDER_WAY):
            part = all_of_them[start : start + UNDER_WAY]
            for one in part:
                self.send(encode(one))
            for _ in part:
                assert isinstance(self.decode(self.receive())[0], Registered)

    def discover(self) -> Found:
        """A complete discovery."""
        self.send(encode(Discover("d", "temperature", ("city",))))
        found, _ = self.decode(self.receive())
        assert isinstance(found, Found)
        return found

    def nothing_found(self) -> None:
        """The same round trip with an empty result."""
        self.send(encode(Discover("d", "temperature", ("nowhere",))))
        self.decode(self.receive())


def over_the_socket(registered: Sequence[Register]) -> list[Result]:
    """A discovery from a party's `encode` to its decoded reply."""
    with tempfile.TemporaryDirectory() as name:
        config, address = Path(name) / "drs.toml", free_address()
        config.write_text(f'[sockets]\npublic = "{address}"\n')
        command = str(Path(sys.executable).with_name("sanderling-drs"))
        with (
            process(command, "--config", str(config), "--exit-on-stdin-eof"),
            zmq.Context() as context,
        ):
            asker = Asker(context, address)
            asker.register(registered)
            assert len(asker.discover().candidates) == MATCHING
            whole_s, empty_s = interleaved(
                ROUNDS,
                lambda: seconds_of(asker.discover),
                lambda: seconds_of(asker.nothing_found),
            )
            context.destroy(linger=0)
    peer = "a discovery that finds nothing, same socket"
    return [result("directory-socket", whole_s, "ms", peer, empty_s)]


def run() -> list[Result]:
    """Goal of both in-memory lookups: at most 1 ms. directory-socket informs."""
    registered = registrations()
    return in_memory(registered) + over_the_socket(registered)


if __name__ == "__main__":
    report(run())
