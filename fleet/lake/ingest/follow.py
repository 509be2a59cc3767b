"""`fleet lake follow`: ingests pulled files continuously."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from fleet.common import exits
from fleet.lake.selection import existing_lake
from fleet.terminal.installing import require

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder
    from fleet.lake.ingest.merging import Ingested


def run(named: Path | None, folder: Folder | None, master: str, every_s: float) -> int:
    """Follow until SIGTERM or Ctrl-C, with a line on stderr for each batch that changed something;
    returns the exit status. SIGTERM waits for the batch in progress; Ctrl-C leaves it to the next
    run."""
    lake = existing_lake(named, folder)
    require("pyspark", "pyarrow")
    from fleet.lake.ingest import store
    from fleet.lake.ingest.run import SETTINGS
    from fleet.lake.ingest.stream import follow
    from fleet.spark.errors import EngineError
    from fleet.spark.session import open_session
    from fleet.terminal.output import say

    until = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        until.set()

    with store.writing(lake):
        pass  # report a held lock before Spark starts
    try:
        with open_session("fleet lake follow", master, SETTINGS) as spark:
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
                signal.signal(signal.SIGTERM, stop)
            say(f"following {lake.landing}")
            follow(spark, lake, every_s, lambda done: say(line(done)), until, said=say)
    except EngineError:
        # Service managers send the signal to the Java process, too.
        if not until.is_set():
            raise
    return exits.DONE


def line(done: Ingested) -> str:
    """Summary of one batch."""
    from fleet.lake.ingest.run import reasons, remarks

    time = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
    rows = [f"{name} {count:,}" for name, count in sorted(done.rows.items()) if count]
    if done.quarantined:
        rows.append(f"quarantine {done.quarantined:,}: {reasons(done)}")
    return f"{time}  {', '.join(rows)}{remarks(done)}"
