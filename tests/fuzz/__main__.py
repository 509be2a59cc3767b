"""`make fuzz`: mutated frames at every socket, then parties that lie within their conversations,
outages of masters and connections, and hostile connections to each socket. It ends at the first
that one did not survive; the same seed sends the same, but for liars and outages."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.fuzz import byzantine, connections, outages
from tests.fuzz.campaign import Finding, run
from tests.fuzz.fleets import FLEETS

# Of honest parties, in each history with lies; half as many with outages.
ACTIONS: Final = 800
History = Callable[[Path, int, str], int]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="how many (FRAMES=N)")
    parser.add_argument(
        "--connections", type=int, default=2_000, help="how many to each fleet (CONNECTIONS=N)"
    )
    parser.add_argument(
        "--histories", type=int, default=20, help="with lies, and with outages (HISTORIES=N)"
    )
    parser.add_argument("--seed", default="1", help="of which series (SEED=text)")
    wanted = parser.parse_args()

    def told(sent: int) -> None:
        sys.stderr.write(f"\r{sent:,} frames")

    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        try:
            report = run(Path(folder), wanted.frames, wanted.seed, told=told)
        except Finding as finding:
            sys.stderr.write(f"\n{finding}\n")
            return 1
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sys.stdout.write(
        f"\n{report.frames:,} frames of seed {wanted.seed!r} in {report.cpu_s:,.0f} s of processor "
        f"time, {report.frames / report.cpu_s:,.0f} a second; peak {peak_mib} MiB; no finding\n"
    )
    for name, took_ms in sorted(report.longest_ms.items(), key=lambda each: -each[1]):
        sys.stdout.write(f"  {name}: the longest took {took_ms:.1f} ms of processor time\n")
    count, seed = wanted.histories, wanted.seed
    return (
        _histories(count, seed, byzantine.run, ACTIONS, "frames of parties that lie")
        or _histories(count, seed, outages.run, ACTIONS // 2, "outages")
        or _connect(wanted.connections, seed)
    )


def _histories(count: int, seed: str, run: History, actions: int, what: str) -> int:
    """So many histories of one kind; the exit status."""
    did = 0
    for number in range(1, count + 1):
        with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
            try:
                did += run(Path(folder), actions, f"{seed} {number}")
            except Finding as finding:
                sys.stderr.write(f"\n{finding}\n")
                return 1
        sys.stderr.write(f"\r{number:,} histories")
    sys.stdout.write(f"\n{count:,} histories of seed {seed!r} with {did:,} {what}; no finding\n")
    return 0


def _connect(count: int, seed: str) -> int:
    """So many hostile connections to each fleet; the exit status."""

    def told(made: int) -> None:
        sys.stderr.write(f"\r{made:,} connections")

    for kind in FLEETS:
        with tempfile.TemporaryDirectory(prefix="fuzz") as folder, kind(Path(folder)) as fleet:
            try:
                report = connections.run(fleet, count, seed, told=told)
            except Finding as finding:
                sys.stderr.write(f"\n{finding}\n")
                return 1
        most = max(report.grown, key=report.grown.__getitem__, default="")
        sys.stdout.write(
            f"\n{kind.__name__.lower()}: {report.made:,} connections of seed {seed!r}, and "
            f"{report.answered:,} from its processes answered by impostors, in "
            f"{report.seconds:,.0f} s; {most} grew most, by "
            f"{report.grown.get(most, 0) >> 20} MiB; no finding\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
