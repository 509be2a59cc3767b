"""`fleet lab placement-flock`: a run, and its results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from fleet.common import exits
from fleet.terminal import screen
from lab import pages, provenance
from lab.placement.flock import tables
from lab.placement.flock.run import run
from lab.placement.flock.world import Setting, draw
from lab.placement.masters import MastersError

NAME: Final = "placement-flock"


def command(setting: Setting, seed: int, directory: Path, results: Path) -> int:
    """Run it, and write the page; the exit status."""
    terminal = screen.console()
    words = f"--masters {setting.masters} --clones {setting.clones} --every {setting.every_s:g}"
    origin = provenance.now(f"fleet lab {NAME} {words} --seed {seed}")
    began_s = time.monotonic()
    folder = directory / time.strftime("%Y%m%d-%H%M%S")
    try:
        found = run(
            setting, draw(setting, seed), folder, lambda text: screen.line(terminal, text, "dim")
        )
    except MastersError as error:
        return exits.fail(str(error), exits.FAILED)
    data = pages.write_csv(results / f"{NAME}.csv", tables.MOVE, tables.rows(found))
    more = {
        "duration": f"{(time.monotonic() - began_s) / 60:.1f} min",
        "load average just after": f"{provenance.load_average():.2f}",
        "data": f"[{data.name}]({data.name}): a row for each move",
    }
    for path in (data, pages.write(results, NAME, tables.tables(found), origin, more)):
        screen.line(terminal, f"wrote {path}")
    return exits.DONE if found.settled else exits.FAILED
