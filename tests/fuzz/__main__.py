"""`make fuzz`: mutated frames at every socket. It ends at the first frame that one did not survive,
with the frame in hexadecimal; the same seed and number send the same frames again."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from pathlib import Path

from tests.fuzz.campaign import Finding, run


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="how many (FRAMES=N)")
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
