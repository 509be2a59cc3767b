"""Progress display of `fleet lab simulate`: overall progress, and the current work of every
process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from fleet.terminal import screen
from fleet.terminal.wrapping import folded
from lab.simulation.contenders import CONTENDERS, title
from lab.simulation.evaluation import variant_of
from lab.simulation.points import Key, Result
from lab.simulation.training import is_training

# Approximate number of points in a search.
SEARCH_POINTS: Final = 4.5
# Approximate slowdown per subtask where nodes interact.
ONE_CLOCK: Final = 8.0


class _Bar(Progress):
    """A bar, and lines below it: beside it a text would be folded in 80 columns."""

    lines: tuple[str, ...] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for line in self.lines:
            yield from folded(Text(f"  {line}"), self.console.width)


class SimulationScreen:
    """A bar for the total and a line for each process; without a terminal, a line per result."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._lines: dict[int, str] = {}
        self._advance = 0.0
        self._bar: _Bar | None = None

    @contextmanager
    def running(self, keys: list[Key]) -> Iterator[None]:
        """Show progress on these results until the block ends."""
        if not self.console.is_terminal:
            yield
            return
        self._bar = _Bar(
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            speed_estimate_period=600.0,
        )
        with self._bar as bar:
            bar.add_task("", total=sum(map(weight, keys)))
            yield

    def begun(self, process: int, key: Key) -> None:
        """A process has begun a result."""
        self._lines[process] = describe(key)
        self._show(0.0)

    def finished(self, result: Result) -> None:
        """A result is complete."""
        if self._bar is None:
            what = describe(result.key)
            load = "" if result.load_per_s is None else f": {result.load_per_s:.3f}/s"
            seconds = sum(point.seconds for point in result.points)
            points = f"{len(result.points)} points in {seconds:.1f} s"
            screen.line(self.console, f"{what}{load} ({points})")
        self._show(weight(result.key))

    def idle(self, process: int) -> None:
        """A process is idle."""
        self._lines.pop(process, None)

    def _show(self, advance: float) -> None:
        if self._bar is not None:
            self._bar.lines = tuple(self._lines[process] for process in sorted(self._lines))
            self._bar.update(self._bar.task_ids[0], advance=advance)


def weight(key: Key) -> float:
    """Approximate work in a result: its runs times their subtasks."""
    runs = SEARCH_POINTS if key.loads_per_s is None else len(key.loads_per_s)
    cost = ONE_CLOCK if CONTENDERS[key.contender].one_clock else 1.0
    return cost * runs * key.setting.queries * key.setting.size.nodes


def describe(key: Key) -> str:
    """``18,000 nodes, one k_t a query, clipped, seed 3, EDFQ``."""
    setting = key.setting
    what = "" if key.loads_per_s is None else " curve"
    seed = "training" if is_training(setting) else f"seed {setting.seed}"
    return (
        f"{setting.size.nodes:,} nodes, {variant_of(setting).name}, {seed}, "
        f"{title(key.contender)}{what}"
    )
