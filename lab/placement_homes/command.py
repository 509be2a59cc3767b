"""`fleet lab homes`: RELOC's sweeps, optima of small cases, and events; writes the results."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from fleet.common import exits
from fleet.terminal import screen
from lab import pages, provenance
from lab.placement_homes import online, optimum, page
from lab.placement_homes.draw import Setting
from lab.placement_homes.sweeps import Extent, Point, points, run_hard, run_point

NAME: Final = "placement-homes"


class Options(Struct, frozen=True):
    """The options of the command."""

    results: Path
    seeds: int


def run(options: Options, extent: Extent | None = None) -> int:
    """Measure and write."""
    from lab.placement_homes.pictures import draw

    terminal = screen.console()
    origin = provenance.now(f"fleet lab homes --seeds {options.seeds}")
    extent = Extent(seeds=options.seeds) if extent is None else extent
    began = time.process_time()
    seeds = range(1, extent.seeds + 1)
    rows = []
    swept = list(points(extent))
    for n, point in enumerate(swept, 1):
        screen.line(terminal, f"{point.sweep} {n} of {len(swept)} …", "dim")
        rows += [row for seed in seeds for row in run_point(point, seed)]
    screen.line(terminal, "hard limits …", "dim")
    for (sigma, factor), overlap in product(extent.hard, (False, True)):
        at = Point("σ", Setting(sigma, factor, overlap, extent.topics))
        rows += [row for seed in seeds for row in run_hard(at, seed)]
    screen.line(terminal, "optima …", "dim")
    optima = [optimum.compare(*case) for case in optimum.cases(extent)]
    screen.line(terminal, "events …", "dim")
    looks = [
        look
        for overlap in (False, True)
        for seed in seeds
        for look in online.follow(overlap, seed, extent.events, extent.topics)
    ]
    results = page.Results(rows, optima, looks)
    data = pages.write_csv(
        options.results / f"{NAME}.csv",
        rows[0].__struct_fields__,
        (
            [f"{v:.6g}" if isinstance(v, float) else v for v in msgspec.structs.astuple(row)]
            for row in rows
        ),
    )
    picture = options.results / f"{NAME}.svg"
    draw([row for row in rows if row.limits == "ratio"], picture)
    more = {
        "seeds": str(extent.seeds),
        "duration": f"{(time.process_time() - began) / 60:.1f} min of one processor",
        "data": f"[{NAME}.csv]({NAME}.csv): a row for each method and case",
    }
    written = pages.write(options.results, NAME, page.tables(results), origin, more)
    for path in (data, picture, written):
        screen.line(terminal, f"wrote {path}")
    return exits.DONE
