"""Discovery of 1,000 matching IADs among 2,000, against a plain dict lookup of the same records.

python -m bench.directory

First in memory, which DSSP reports as below 1 ms; then the whole request over the real socket of a
registration service: encode, two frames, decode, look up, encode, decode. Then changes of a record
of 4,096 areas against the decoding of its message, and a party's questions while another floods the
socket with such changes.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import zmq

from agent.directory.directory import Directory, Edit
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, encode
from agent.wire.directory import (
    MAX_AREAS,
    Account,
    DirectoryEntry,
    DirectoryReply,
    DirectoryRequest,
    Discover,
    Found,
    Offering,
    Register,
    Registered,
)
from bench.output import Result, interleaved, report, result
from bench.processes import process, ready
from fleet.testbed.ports import free_address

MATCHING = 1_000
OTHERS = 1_000
CAMPUSES = 10
LOOKUPS = 20
ROUNDS = 25
UNDER_WAY = 50  # registrations in flight, each of which waits for the disk
ASKED = 400  # questions of an honest party
CHANGES = 20
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
        result("directory-1-area", one_s, "ms", peer, dict_s, most=1e-3),
        result("directory-10-areas", ten_s, "ms", peer, dict_s, most=1e-3),
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


@contextmanager
def served() -> Iterator[str]:
    """The address of a registration service that runs."""
    with tempfile.TemporaryDirectory() as name:
        config, address = Path(name) / "drs.toml", free_address()
        config.write_text(f'[sockets]\npublic = "{address}"\n')
        command = str(Path(sys.executable).with_name("sanderling-drs"))
        with process(command, "--config", str(config), "--exit-on-stdin-eof"):
            yield address


def over_the_socket(registered: Sequence[Register]) -> list[Result]:
    """A discovery from a party's `encode` to its decoded reply."""
    with served() as address, zmq.Context() as context:
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


def large(version: int, changed: int) -> Register:
    """A record of 4,096 areas, of which so many differ from those of other versions."""
    areas = [f"b/f{n % 64}/r{n}" for n in range(MAX_AREAS - changed)]
    areas += [f"b/f{n % 64}/v{version}r{n}" for n in range(changed)]
    offerings = [Offering(f"c{n}", tuple(areas[n : n + 1_024])) for n in range(0, MAX_AREAS, 1_024)]
    return Register("r", "large", "tcp://10.0.0.1:5700", tuple(offerings), 3_600.0)


def changes(changed: int) -> tuple[float, float]:
    """Medians of processor time to decode the message of such a change, and to apply it."""
    decode = Decoder[DirectoryRequest](DirectoryRequest).decode
    directory = Directory("bench", 0, ())
    decoded_s, applied_s = [], []
    for version in range(1, CHANGES + 1):
        frame = encode(large(version, changed))
        started_s = time.thread_time()
        request, _ = decode(frame)
        decoded_s.append(time.thread_time() - started_s)
        assert isinstance(request, Register)
        edit = Edit("bench", version, (entry(version, request),))
        started_s = time.thread_time()
        directory.apply(edit)
        applied_s.append(time.thread_time() - started_s)
    return sorted(decoded_s)[CHANGES // 2], sorted(applied_s)[CHANGES // 2]


def in_index() -> list[Result]:
    """Changes of all areas of a large record, and of one."""
    results = []
    for name, changed in (("all", MAX_AREAS), ("one", 1)):
        decoded_s, applied_s = changes(changed)
        peer = "decoding the message, processor time as well"
        least = 1.0 if name == "one" else None
        results.append(
            result(f"directory-change-{name}", applied_s, "ms", peer, decoded_s, least_ratio=least)
        )
    return results


def p99_s(asker: Asker) -> float:
    """The 99th percentile of how long small questions take."""
    taken = []
    for _ in range(ASKED):
        started_s = time.perf_counter()
        asker.nothing_found()
        taken.append(time.perf_counter() - started_s)
    return sorted(taken)[int(ASKED * 0.99)]


def flooded() -> list[Result]:
    """An honest party's questions during a flood of large changes by another, against before."""
    with served() as address, zmq.Context() as context:
        asker = Asker(context, address)
        p99_s(asker)
        before_s = p99_s(asker)
        with process(sys.executable, "-m", "bench.directory", address) as attacker:
            ready(attacker)
            during_s = p99_s(asker)
            attacker.kill()
        after_s = p99_s(asker)
        context.destroy(linger=0)
    peer = "the same party before"
    more = {"times": round(during_s / before_s, 1), "p99_after_ms": round(after_s * 1e3, 2)}
    return [result("directory-flood", during_s, "ms", peer, before_s, **more)]


def flood(address: str) -> None:
    """Change all of a large record again and again, as often as the service takes it; on processor
    time that others leave, as an attacker on another machine would."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    frames = itertools.cycle([encode(large(version, MAX_AREAS)) for version in (1, 2)])
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(address)
    for _ in range(UNDER_WAY):
        socket.send(next(frames))
    socket.recv()
    print("ready", flush=True)
    while True:
        socket.send(next(frames))
        socket.recv()


def run() -> list[Result]:
    """Goals: both lookups in memory at most 1 ms, a change of one area cheaper than its message.
    The others inform."""
    registered = registrations()
    return in_memory(registered) + in_index() + over_the_socket(registered) + flooded()


if __name__ == "__main__":
    if sys.argv[1:]:
        flood(sys.argv[1])
    report(run())
