"""`fleet lab homes`, `placement-topics` and `placement-clones`: run the experiment, write its
results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fleet.common import exits
from fleet.terminal import screen
from fleet.terminal.tables import Table
from lab import pages, provenance
from lab.placement.clones import experiments
from lab.placement.clones import tables as clones_tables
from lab.placement.homes import online, optimum, sweeps
from lab.placement.homes import tables as homes_tables
from lab.placement.homes.draw import Setting
from lab.placement.topics import accuracy, campaign
from lab.placement.topics import tables as topics_tables

QUICK: Final = campaign.Extent(
    models=accuracy.Extent(ours=10, fewest=5, paper=20, held=30),
    topics=(20,),
    requests=2,
    exact=False,
    drifts=3,
    events=40,
)
FEW: Final = experiments.Extent(
    seeds=2,
    printed=(8, 16),
    scaled=(50,),
    annealed=(8, 16, 50),
    few=((0.6, 50.0),),
    games=2,
    starts=2,
    ages=(0, 3),
    lost=(0.5,),
    clones=50,
    many=((100, 1), (300, 1), (1_000, 1)),
    sweeps=10,
)


class Written(Struct, frozen=True):
    """What an experiment found: rows of its data, tables of its page, and who draws its picture."""

    name: str  # of page, data and picture
    row: str  # what a row of the data is of
    headings: Sequence[str]
    rows: Iterable[Sequence[object]]
    tables: Mapping[str, Table]
    draw: Callable[[Path], None]


def homes(folder: Path, seeds: int, extent: sweeps.Extent | None = None) -> int:
    """RELOC's sweeps, optima of small cases, and events; the exit status."""
    from lab.placement import pictures

    origin = provenance.now(f"fleet lab homes --seeds {seeds}")
    extent = sweeps.Extent(seeds=seeds) if extent is None else extent
    began = time.process_time()
    drawn = range(1, extent.seeds + 1)
    rows = []
    swept = list(sweeps.points(extent))
    for n, point in enumerate(swept, 1):
        _say(f"{point.sweep} {n} of {len(swept)} …")
        rows += [row for seed in drawn for row in sweeps.run_point(point, seed)]
    _say("hard limits …")
    for (sigma, factor), overlap in product(extent.hard, (False, True)):
        at = sweeps.Point("σ", Setting(sigma, factor, overlap, extent.topics))
        rows += [row for seed in drawn for row in sweeps.run_hard(at, seed)]
    _say("optima …")
    optima = [optimum.compare(*case) for case in optimum.cases(extent)]
    _say("events …")
    looks = [
        look
        for overlap in (False, True)
        for seed in drawn
        for look in online.follow(
            replace(online.SETTING, overlap=overlap, topics=extent.topics), seed, extent.events
        )
    ]
    ratio = [row for row in rows if row.limits == "ratio"]
    written = Written(
        "placement-homes",
        "method and case",
        sweeps.Row.__struct_fields__,
        ([_digits(getattr(row, key)) for key in row.__struct_fields__] for row in rows),
        homes_tables.tables(homes_tables.Results(rows, optima, looks)),
        lambda path: pictures.homes(ratio, path),
    )
    took = f"{(time.process_time() - began) / 60:.1f} min of one processor"
    return _write(folder, origin, written, seeds=str(extent.seeds), duration=took)


def topics(folder: Path, seed: int, *, quick: bool, extent: campaign.Extent | None = None) -> int:
    """Models, packings and queues of topics, on a simulated broker; the exit status."""
    from lab.placement import pictures

    words = f"fleet lab placement-topics --seed {seed}{' --quick' if quick else ''}"
    origin = provenance.now(words)
    _say("a simulation of a broker with four cores, not a measurement of one")
    found = campaign.run(extent or (QUICK if quick else campaign.Extent()), seed, _say)
    written = Written(
        "placement-topics",
        "packing",
        topics_tables.HEADINGS,
        topics_tables.rows(found),
        topics_tables.tables(found),
        lambda path: pictures.topics(found, path),
    )
    return _write(folder, origin, written)


def clones(
    folder: Path, seed: int, *, quick: bool, extent: experiments.Extent | None = None
) -> int:
    """Clones that move by themselves, by Flock's rule and by ours; the exit status."""
    from lab.placement import pictures

    words = f"fleet lab placement-clones --seed {seed}{' --quick' if quick else ''}"
    origin = provenance.now(words)
    began = time.process_time()
    extent = extent or (FEW if quick else experiments.Extent())
    found = experiments.run(extent, seed, _say)
    written = Written(
        "placement-clones",
        "method and game",
        experiments.Row.__struct_fields__,
        ([_digits(getattr(row, key)) for key in row.__struct_fields__] for row in found.rows),
        clones_tables.tables(found),
        lambda path: pictures.clones(found, path),
    )
    took = f"{(time.process_time() - began) / 60:.1f} min of one processor"
    return _write(folder, origin, written, seeds=str(extent.seeds), duration=took)


def _write(folder: Path, origin: provenance.Provenance, found: Written, **more: str) -> int:
    name = found.name
    data = pages.write_csv(folder / f"{name}.csv", found.headings, found.rows)
    picture = folder / f"{name}.svg"
    found.draw(picture)
    more["data"] = f"[{name}.csv]({name}.csv): a row for each {found.row}"
    for path in (data, picture, pages.write(folder, name, found.tables, origin, more)):
        screen.line(screen.console(), f"wrote {path}")
    return exits.DONE


def _say(text: str) -> None:
    screen.line(screen.console(), text, "dim")


def _digits(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
