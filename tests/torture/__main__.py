"""`make torture`: the whole campaign; `ARGS="--help"` says what else it can do."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from tests.torture import campaign, recording
from tests.torture.campaign import Job, Outcome
from tests.torture.cuts import scratch
from tests.torture.report import page, table


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--scripts", type=int, default=250, help="scripts with 60 cuts each (250)")
    parser.add_argument("--faulty", type=int, default=60, help="scripts on failing disks (60)")
    parser.add_argument("--chains", type=int, default=60, help="chains of 12 starts each (60)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--results", type=Path, help="folder for the page power-cuts.md")
    parser.add_argument(
        "--again", nargs="+", metavar="KIND SEED [IMAGE]", help="repeat one job, or one image of it"
    )
    return parser.parse_args()


def repeat(words: list[str], recorder: str) -> Outcome:
    """One job, or one image of a script, again."""
    job = Job(words[0], int(words[1]))
    if len(words) == 2 or job.kind == "agents":
        return campaign.perform(job, recorder)
    outcome = Outcome(Counter(), [])
    campaign.scripted(job, recorder, outcome, only=int(words[2]))
    return outcome


def perform_all(asked: argparse.Namespace, recorder: str) -> Outcome:
    """All jobs, on all processors; progress goes to standard error."""
    jobs = list(campaign.jobs(asked.scripts, asked.faulty, asked.chains, asked.seed))
    total = Outcome(Counter(), [])
    began_s = time.monotonic()
    # A fresh interpreter each: a fork would take ZeroMQ's threads along.
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        work = pool.imap_unordered(partial(campaign.perform, recorder=recorder), jobs)
        for done, outcome in enumerate(work, 1):
            total.counts.update(outcome.counts)
            total.wrong.extend(outcome.wrong)
            for line in outcome.wrong[:20]:
                sys.stderr.write(f"\r{line}\n")
            took_s = time.monotonic() - began_s
            sys.stderr.write(
                f"\r{done} of {len(jobs)} jobs, {campaign.images_in(total.counts):,} images, "
                f"{len(total.wrong)} violations, {took_s:.0f} s "
            )
            sys.stderr.flush()
    sys.stderr.write("\n")
    return total


def main() -> int:
    """Run the command; the exit status is 1 if anything was violated."""
    asked = arguments()
    if why := recording.unavailable():
        sys.stderr.write(f"error: {why}\n")
        return 2
    os.nice(10)
    with scratch() as folder:
        recorder = recording.built(folder)
        outcome = repeat(asked.again, recorder) if asked.again else perform_all(asked, recorder)
    sys.stdout.write(table(outcome.counts))
    for line in outcome.wrong:
        sys.stdout.write(f"VIOLATED {line}\n")
    sys.stdout.write(f"{len(outcome.wrong)} violations\n")
    if asked.results and not asked.again:
        (asked.results / "power-cuts.md").write_text(page(outcome, asked))
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
