"""The power-cut campaign: scripts, cuts, damage, faults and whole agents; counted and judged."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from testkit.damage import damaged
from tests.torture.agents import chain
from tests.torture.cuts import Recording, cuts, images, judged, laid_out, played, scratch
from tests.torture.judge import judge, judge_damaged

LENGTH: Final = 110  # beats of a script
CUTS: Final = 60  # images of a script
DAMAGED: Final = 15  # of a script
ROUNDS: Final = 12  # starts of a chain


class Job(NamedTuple):
    """A script or a chain, by its seed."""

    kind: str  # cuts, faults, agents
    seed: int


class Outcome(NamedTuple):
    """What a job found: counts, and violations with how to make them again."""

    counts: Counter[str]
    wrong: list[str]


def perform(job: Job, recorder: str) -> Outcome:
    """Do one job."""
    outcome = Outcome(Counter(), [])
    work: Callable[[Job, str, Outcome], None] = agents if job.kind == "agents" else scripted
    try:
        work(job, recorder, outcome)
    except subprocess.CalledProcessError as error:
        outcome.wrong.append(f"{again(job)}: the player ended: {error.stderr[-1500:]}")
    except subprocess.TimeoutExpired:
        outcome.wrong.append(f"{again(job)}: the player hangs")
    except Exception as error:  # noqa: BLE001 - one job must not end the campaign
        outcome.wrong.append(f"{again(job)}: {type(error).__name__}: {error}")
    return outcome


def again(job: Job, number: int | None = None) -> str:
    """The command's arguments that repeat a job, or one image of it."""
    return f"--again {job.kind} {job.seed}" + (f" {number}" if number is not None else "")


def scripted(job: Job, recorder: str, outcome: Outcome, only: int | None = None) -> None:
    """Play a script, judge images of its power cuts, and some that are damaged."""
    faults = job.kind == "faults"
    recorded = played(recorder, job.seed, LENGTH, faults=faults)
    outcome.counts["scripts"] += 1
    numbers = [only] if only is not None else range(CUTS)
    with scratch() as folder:
        disk = Path(folder, "disk")
        for image in images(recorded, cuts(job.seed, numbers, recorded.log)):
            found = judged(image, recorded, disk)
            count(outcome.counts, job, image.cut.survival.style, image.unsure, found)
            outcome.counts[f"under {image.cut.rules} rules for names"] += 1
            outcome.counts["acknowledged readings held against images"] += sum(
                reading.acknowledged for reading in image.truth.readings.values()
            )
            outcome.wrong.extend(f"{again(job, image.cut.number)}: {line}" for line in found)
        if not faults and only is None:
            damage(job, recorded, disk, outcome)
        if faults:
            whole(job, recorded, disk, outcome)


def count(counts: Counter[str], job: Job, style: str, unsure: int, found: list[str]) -> None:
    """Count one image."""
    counts["images of faulty disks" if job.kind == "faults" else "images of scripts"] += 1
    counts[f"unsynced changes: {style}"] += 1
    counts["with unsynced changes"] += unsure > 0
    counts["images with lost acknowledged readings or events"] += any("LOST" in x for x in found)
    counts["images put aside"] += any("put aside" in line for line in found)
    counts["images that do not open"] += any("does not open" in line for line in found)


def damage(job: Job, recorded: Recording, disk: Path, outcome: Outcome) -> None:
    """Images of the same script with damage that no power cut does."""
    for image in images(recorded, cuts(job.seed, range(CUTS, CUTS + DAMAGED), recorded.log)):
        draw = Random(f"damage {job.seed} {image.cut.number}")
        files, what = damaged(image.files, draw)
        laid_out(files, disk)
        found = judge_damaged(image.truth, recorded.script, disk)
        aside = [path for path in disk.iterdir() if ".broken" in path.name]
        outcome.counts["damaged files"] += 1
        outcome.counts["damaged files put aside"] += bool(aside)
        outcome.counts["damaged files that do not open"] += any("not open" in x for x in found)
        outcome.wrong.extend(f"{again(job, image.cut.number)} ({what}): {line}" for line in found)


def whole(job: Job, recorded: Recording, disk: Path, outcome: Outcome) -> None:
    """After the faults, without a power cut: what is not there was given up and counted."""
    at = len(recorded.log)
    (cut,) = cuts(job.seed, [0], recorded.log)
    keeps_all = cut.survival._replace(style="all")
    last = next(images(recorded, [cut._replace(at=at, survival=keeps_all)]))
    laid_out(last.files, disk)
    found = judge(last.truth, recorded.script, disk, at_end=True)
    if last.truth.done != len(recorded.script.steps) - 1:
        found.append("the history does not recover when the disk works again")
    outcome.wrong.extend(f"{again(job)}, at its end: {line}" for line in found)
    outcome.counts["operations refused by the history while the disk failed"] += last.truth.refused
    outcome.counts["readings given up and counted while the disk failed"] += recorded.given_up


def agents(job: Job, recorder: str, outcome: Outcome, only: int | None = None) -> None:
    """A chain of whole agents."""
    for number, verdict in enumerate(chain(recorder, job.seed, ROUNDS)):
        outcome.counts["images with a start of the whole agent"] += verdict.judged
        outcome.counts["agents killed again while they started"] += not verdict.judged
        outcome.counts["agents that did not start"] += any("not start" in x for x in verdict.wrong)
        outcome.counts["acknowledged readings held against agents"] += verdict.acknowledged
        lost = any("LOST" in line for line in verdict.wrong)
        outcome.counts["images with lost acknowledged readings or events"] += lost
        outcome.wrong.extend(f"{again(job)}, start {number + 1}: {line}" for line in verdict.wrong)


def jobs(scripts: int, faulty: int, chains: int, seed: int) -> Iterator[Job]:
    """All jobs of a campaign, the slow ones first."""
    for kind, many in (("agents", chains), ("faults", faulty), ("cuts", scripts)):
        for n in range(many):
            yield Job(kind, seed + n)


def images_in(counts: Counter[str]) -> int:
    """How many images of power cuts were judged."""
    kinds = ("images of scripts", "images of faulty disks")
    return sum(counts[kind] for kind in (*kinds, "images with a start of the whole agent"))
