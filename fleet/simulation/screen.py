"""Terminal output of the demo: headings, progress, tables of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from fleet.simulation.measures import ClassSummary
from fleet.terminal import screen
from fleet.terminal.units import format_kept

POLICY_NAMES: Final = {"fifo": "FIFO", "edfq": "EDFQ"}
BAR_WIDTH: Final = 24
# The longest text beside a bar, with its margins.
MAX_WORD: Final = len("10,000/30,000 answers") + 5
# What a class's columns count, and their headings: those of a report.
COUNTS: Final = {"refused": "refused", "partial": "lacked\nareas", "unanswered": "no\nreply"}
Advance = Callable[[float, str], None]
"""How much is done, of the total, and a word about it."""


class DemoScreen:
    """Writes to `console`; bars go to `bars`, by default the same, and only on a terminal."""

    def __init__(self, console: Console, bars: Console | None = None) -> None:
        self.console = console
        self.bars = bars or console

    def heading(self, text: str) -> None:
        """The title of a step."""
        self.console.print()
        screen.line(self.console, text, style="bold cyan")

    def say(self, text: str | Text, style: str = "") -> None:
        """A line or a paragraph."""
        if isinstance(text, str) and self.console.is_terminal:
            self.console.print(text, style=style or None, markup=False)
        else:
            screen.line(self.console, text, style)

    @contextmanager
    def progress(self, text: str, total: float) -> Iterator[Advance]:
        """A progress bar for the block; without a terminal, one line at its start."""
        if self.bars is not self.console or not self.bars.is_terminal:
            screen.line(self.console, f"{text} …")
        if not self.bars.is_terminal:
            yield lambda _done, _word: None
            return
        if len(text) + BAR_WIDTH + MAX_WORD > self.bars.width:
            # On a line of its own, so that nothing is truncated.
            screen.line(self.bars, f"{text} …")
            text = ""
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=BAR_WIDTH),
            TextColumn("{task.fields[word]}"),
            console=self.bars,
            transient=True,
        )
        with bar:
            task = bar.add_task(text, total=total, word="")
            yield lambda done, word: bar.update(task, completed=done, word=word)

    def runs(self, runs: Mapping[str, Sequence[ClassSummary]], *, with_p99: bool) -> None:
        """A row per class and policy."""
        columns = ["class", "SLO", "policy", "n", "p50", "p95"]
        columns += ["p99"] if with_p99 else []
        summaries = [each for classes in runs.values() for each in classes]
        counts = {n: h for n, h in COUNTS.items() if any(getattr(s, n) for s in summaries)}
        table = screen.plain_table(*columns, "within\nSLO", *counts.values())
        for rows in zip(*runs.values(), strict=True):
            for policy, summary in zip(runs, rows, strict=True):
                first = policy == next(iter(runs))
                cells = _row(summary, policy, first=first, with_p99=with_p99)
                table.add_row(*cells, *(str(getattr(summary, name)) for name in counts))
        table.columns[2].justify = "left"
        screen.show_table(self.console, table)


def _row(summary: ClassSummary, policy: str, *, first: bool, with_p99: bool) -> list[str | Text]:
    cells: list[str | Text] = [
        summary.kind if first else "",
        f"{summary.slo_ms:g} ms" if first else "",
        POLICY_NAMES[policy],
        str(summary.n),
        _ms(summary.p50_ms),
        _ms(summary.p95_ms),
    ]
    if with_p99:
        over = summary.p99_ms is None or summary.p99_ms > summary.slo_ms
        # The word, too, for output without colour.
        text = f"{_ms(summary.p99_ms)} missed" if over else f"{_ms(summary.p99_ms)} kept"
        cells.append(Text(text, style="red" if over else "green"))
    kept = summary.within_slo
    return [*cells, "–" if kept is None else f"{format_kept(kept)} %"]


def _ms(milliseconds: float | None) -> str:
    return "–" if milliseconds is None else f"{milliseconds:.0f} ms"


def verdict(runs: Mapping[str, Sequence[ClassSummary]]) -> str:
    """A sentence for each policy about the classes that met their SLO."""
    sentences = []
    for policy, summaries in runs.items():
        over = [s.kind for s in summaries if s.p99_ms is None or s.p99_ms > s.slo_ms]
        kept = "every class keeps its SLO" if not over else f"SLO missed by class {', '.join(over)}"
        sentences.append(f"{POLICY_NAMES[policy]}: {kept}.")
    return " ".join(sentences)
