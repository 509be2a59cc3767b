"""`fleet lab placement-loop`: a run, and its results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from agent.client import NoReplyError, PublishError, SubscriptionError
from fleet.common import exits
from fleet.spark import session
from fleet.terminal import screen
from lab import pages, provenance
from lab.placement.loop import tables
from lab.placement.loop.building import QUICK, Setting
from lab.placement.loop.run import run
from lab.placement.masters import MastersError

NAME: Final = "placement-loop"


def command(directory: Path, results: Path, *, quick: bool) -> int:
    """Run it, and write the page; the exit status."""
    terminal = screen.console()
    origin = provenance.now(f"fleet lab {NAME}{' --quick' if quick else ''}")
    began_s = time.monotonic()
    folder = directory / time.strftime("%Y%m%d-%H%M%S")

    def say(text: str) -> None:
        screen.line(terminal, text, "dim")

    say("Spark starts …")
    try:
        with session.open_session(f"fleet lab {NAME}", session.LOCAL) as spark:
            found = run(QUICK if quick else Setting(), folder, spark, say)
    except (MastersError, NoReplyError, PublishError, SubscriptionError) as error:
        return exits.fail(str(error), exits.FAILED)
    data = pages.write_csv(results / f"{NAME}.csv", tables.EFFECT, tables.rows(found))
    more = {
        "duration": f"{(time.monotonic() - began_s) / 60:.1f} min",
        "load average just after": f"{provenance.load_average():.2f}",
        "data": f"[{data.name}]({data.name}): a row for each move, as the report has it",
    }
    shown = tables.tables(found)
    for each in shown.values():
        each.show(terminal)
    for path in (data, pages.write(results, NAME, shown, origin, more)):
        screen.line(terminal, f"wrote {path}")
    return exits.DONE
