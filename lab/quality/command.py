"""`fleet lab quality`: measures the quality checks, and writes the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from fleet.common import exits
from fleet.terminal import screen
from lab import provenance
from lab.quality import campaign, cost, results
from lab.quality.recordings import LABELS, RecordingError, labels, read, shipped


class Options(Struct, frozen=True):
    """The options of the command; `data` None stands for the rooms in the repository."""

    data: Path | None
    labels: Path | None
    results: Path
    rounds: int
    rooms: int
    seed: int
    jobs: int


class Extent(Struct, frozen=True):
    """How much is measured at 1 Hz, and of the cost of a value; all of it by default."""

    noises: tuple[str, ...] = tuple(campaign.NOISE)
    minutes: int | None = None
    readings: int = cost.READINGS


WHOLE: Final = Extent()


def run(
    options: Options,
    extent: Extent = WHOLE,
    run_all: Callable[..., campaign.Result] = campaign.run_all,
) -> int:
    """Measure and write; the exit status says whether the checks meet their goals."""
    terminal = screen.console()
    origin = provenance.now(" ".join(_words(options)))
    try:
        known = labels(options.labels or LABELS)
        recording = shipped() if options.data is None else read([options.data])
    except RecordingError as error:
        return exits.fail(str(error), exits.USAGE)
    screen.line(terminal, f"{len(recording.rooms)} rooms, {', '.join(recording.series)} …", "dim")
    sound = campaign.healthy(recording, known)
    if not sound:
        return exits.fail("no room is without faults: nothing to inject into", exits.USAGE)
    found = campaign.real(recording, known)
    pieces = list(campaign.pieces(recording, sound, options.rounds, options.seed))
    screen.line(terminal, f"faults injected into healthy rooms, {len(pieces)} runs …", "dim")
    injected = run_all(campaign.inject, pieces, options.jobs)
    seconds = list(
        campaign.seconds(
            recording,
            sound,
            options.rooms,
            options.seed,
            noises=extent.noises,
            minutes=extent.minutes,
        )
    )
    screen.line(terminal, f"synthetic readings at 1 Hz, {len(seconds)} runs …", "dim")
    every_second = run_all(campaign.every_second, seconds, options.jobs)
    report = results.QualityReport(
        origin=origin,
        seed=options.seed,
        recording=recording,
        labels=known,
        healthy=sound,
        real=found,
        injected=injected,
        every_second=every_second,
        cost=cost.measure(extent.readings),
    )
    for path in results.write(report, options.results):
        screen.line(terminal, f"wrote {path}")
    for text in results.verdict(report):
        screen.line(terminal, text)
    return exits.DONE if report.kept else exits.FAILED


def _words(options: Options) -> Iterable[str]:
    """The command line that repeats the run; files by their names alone."""
    yield "fleet lab quality"
    if options.data is not None:
        yield f"--data {options.data.name}"
    if options.labels is not None:
        yield f"--labels {options.labels.name}"
    yield f"--rounds {options.rounds} --rooms {options.rooms} --seed {options.seed}"
