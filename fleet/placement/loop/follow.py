"""`fleet placement follow`: pulls, ingests, learns, plans and moves, again and again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent.client import NoReplyError, Operator
from agent.net.keys import KeyFiles
from agent.wire.placement import ApplyPlan, PlacementReport, PlannedMove, ShowPlacement
from fleet.common import exits
from fleet.common.exits import CommandError
from fleet.inventory.folder import Folder
from fleet.lake.schema.folder import Lake
from fleet.placement.loop.command import kept_model
from fleet.placement.loop.decision import Caution, Decision, decide
from fleet.placement.loop.learned import Learned, read_learned
from fleet.placement.plans import Plan
from fleet.terminal.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ANSWER_MS: Final = 5_000.0
# A record is written once a minute; fewer minutes than these are no measurement.
FEWEST: Final = 3
STALE_S: Final = 300.0


class Timing(Struct, frozen=True):
    """How often to look, and from how long ago records count."""

    every_s: float = 3_600.0
    window_s: float = 3_600.0


class Masters(Protocol):
    """The masters of the fleet, by IAD."""

    def look(self) -> tuple[list[PlacementReport], list[str]]:
        """Each master's report on itself, and the masters that do not answer."""

    def apply(self, iad: str, moves: Sequence[PlannedMove]) -> str:
        """Have one make those of the moves that begin there; why not, or an empty string."""


class OperatorSockets:
    """Masters by address and keys; each look and each plan opens a connection."""

    def __init__(
        self, addresses: Mapping[str, tuple[str, KeyFiles | None]], timeout_ms: float = ANSWER_MS
    ) -> None:
        self._addresses = addresses
        self._timeout_ms = timeout_ms

    def look(self) -> tuple[list[PlacementReport], list[str]]:
        """See Masters."""
        found, silent = [], []
        for iad, (address, keys) in self._addresses.items():
            try:
                with Operator(address, keys) as link:
                    report = link.ask_placement(ShowPlacement("follow"), self._timeout_ms)
            except (NoReplyError, ValueError, OSError):
                report = None
            if report is None or not report.ok or not report.known:
                silent.append(iad)
            else:
                found.append(report)
        return found, silent

    def apply(self, iad: str, moves: Sequence[PlannedMove]) -> str:
        """See Masters."""
        address, keys = self._addresses[iad]
        try:
            with Operator(address, keys) as link:
                report = link.ask_placement(ApplyPlan("follow", tuple(moves)), self._timeout_ms)
        except (NoReplyError, ValueError, OSError) as error:
            return str(error) or "it does not answer"
        return "" if report.ok else report.message


class Step(Struct, frozen=True):
    """One look: what was decided of each group of masters, and what came of it."""

    lines: tuple[str, ...]
    moves: int = 0


def step(
    masters: Masters, learned: Learned, now: datetime, lake: Lake, caution: Caution, *, acts: bool
) -> Step:
    """Decide, and make the moves that are worth it, if this one `acts`."""
    reports, silent = masters.look()
    decisions = decide(reports, silent, learned, now, caution, kept_model(lake))
    if not decisions:
        heard = "no master answers" if not reports else "no two masters can exchange units"
        return Step((f"does nothing: {heard}",))
    lines, made = [], 0
    for decision in decisions:
        line, count = _done(masters, decision, acts=acts)
        made += count
        lines.append(line if len(decisions) == 1 else f"{decision.masters[0]}…: {line}")
    return Step(tuple(lines), made)


def _done(masters: Masters, decision: Decision, *, acts: bool) -> tuple[str, int]:
    if decision.plan is None:
        return decision.why, 0
    if not acts:
        return f"would make {decision.why}", 0
    troubles, begun = apply(masters, decision.plan)
    line = f"makes {decision.why}"
    return "; ".join([line, *(f"refused: {each}" for each in troubles)]), begun


def apply(masters: Masters, plan: Plan) -> tuple[list[str], int]:
    """Give the plan to each master that a move begins at; what they refused, and how many moves
    begin. One that sees the others' moves made already refuses the whole, and gets its own."""
    troubles, begun = [], 0
    for iad in dict.fromkeys(move.source for move in plan.moves):
        own = [move for move in plan.moves if move.source == iad]
        why = masters.apply(iad, plan.moves)
        if why and len(own) < len(plan.moves):
            why = masters.apply(iad, own)
        if why:
            troubles.append(why)
        else:
            begun += len(own)
    return troubles, begun


class Loop(Struct, frozen=True):
    """All that a look needs; `pull` brings what masters recorded since a time. What fails there
    shows in the age of the records."""

    lake: Lake
    masters: Masters
    pull: Callable[[datetime], object]
    timing: Timing
    acts: bool
    caution: Caution = Caution(STALE_S, FEWEST)

    def look(self, spark: SparkSession, now: datetime) -> Step:
        """Learn from what was pulled, and act."""
        from fleet.lake.ingest.stream import ingest
        from fleet.placement.loop.jobs import learn

        ingest(spark, self.lake)
        learn(spark, self.lake, now - timedelta(seconds=self.timing.window_s))
        return step(
            self.masters, read_learned(self.lake), now, self.lake, self.caution, acts=self.acts
        )


def run(loop: Loop, spark_master: str, tell: Callable[[str], None], *, once: bool) -> int:
    """Look until SIGTERM or Ctrl-C, or once; a line each time. The exit status."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from fleet.spark.session import open_session

    with _until_terminated() as stop:
        while True:
            status = exits.DONE
            try:
                loop.pull(datetime.now(UTC) - timedelta(seconds=loop.timing.window_s))
                # Not kept: Java would hold a GiB from one hour to the next.
                with open_session("fleet placement follow", spark_master) as spark:
                    lines = loop.look(spark, datetime.now(UTC)).lines
            except (CommandError, OSError, ValueError, PySparkException, Py4JError) as error:
                # A lake that cannot be read now, or Java that has ended: the next look is another.
                status = exits.FAILED
                lines = (f"does nothing: {str(error).partition(chr(10))[0]}",)
            for line in lines:
                tell(f"{datetime.now(UTC).astimezone():%Y-%m-%d %H:%M:%S}  {line}")
            if once:
                return status
            if stop.wait(loop.timing.every_s):
                return exits.DONE


@contextmanager
def _until_terminated() -> Iterator[threading.Event]:
    """An event that SIGTERM sets."""
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, end)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


# -- what it is run with -------------------------------------------------------------------------


def start(
    local: Path | None,
    folder: Folder | None,
    lake: Path | None,
    spark_master: str,
    *,
    every_s: float | None,
    window_s: float | None,
    once: bool,
    dry: bool,
) -> int:
    """Follow a fleet, or with `local` the masters of a run in that folder; the exit status."""
    from fleet.inventory import folder as folders

    if local is not None:
        loop = of_run(local, lake, dry=dry)
    else:
        loop = of_fleet(folder or folders.find(), lake, dry=dry)
        if not loop.acts and not dry:
            say("placement.follow is not true in the inventory: moves are named, not made")
    timing = Timing(every_s or loop.timing.every_s, window_s or loop.timing.window_s)
    return run(replace(loop, timing=timing), spark_master, print_line, once=once)


def print_line(text: str) -> None:
    """A line on stdout at once."""
    print(text, flush=True)


def of_fleet(folder: Folder, lake: Path | None, *, dry: bool) -> Loop:
    """For a fleet: it acts only where the inventory says so."""
    from fleet.inventory.loader import load
    from fleet.keys.store import Store
    from fleet.lake.pull import pull
    from fleet.lake.schema.folder import chosen

    fleet, store = load(folder), Store(folder)
    addresses = {
        iad.name: (
            f"tcp://{iad.master.address}:{iad.master.operator_port}",
            store.key_files("operator", iad.name),
        )
        for iad in fleet.iad
    }

    def bring(since: datetime) -> object:
        return pull.records_of_fleet(folder, lake, since)

    wanted = fleet.placement
    return Loop(
        chosen(lake, folder.root),
        OperatorSockets(addresses),
        bring,
        Timing(wanted.every_s, wanted.window_s),
        acts=wanted.follow and not dry,
    )


def of_run(folder: Path, lake: Path | None, *, dry: bool) -> Loop:
    """For the masters of a run on this machine."""
    from agent.wire.config import load
    from agent.wire.master_config import MasterConfig
    from fleet.lake.pull import local, pull
    from fleet.lake.schema.folder import chosen

    addresses: dict[str, tuple[str, KeyFiles | None]] = {}
    found = local.run_in(folder)
    for iad in found.fleet.iad:
        config = load(found.configs[f"{iad.name}/master"], MasterConfig)
        addresses[iad.name] = (config.sockets.operator, None)

    def bring(since: datetime) -> object:
        return pull.records_of_run(folder, lake, since)

    return Loop(chosen(lake, folder), OperatorSockets(addresses), bring, Timing(), acts=not dry)
