"""The demo's story: what the terminal shows of it, in two screens of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rich.console import Console

from agent.wire.base import Policy
from fleet.simulation.measures import ClassSummary
from fleet.simulation.screen import COUNTS
from fleet.terminal import screen
from fleet.terminal.units import format_kept

WIDTH: Final = 80
INDENT: Final = "      "
COPIED: Final = "  "
STEPS: Final = 5
# The classes of queries of the load, in the words of who asks.
QUESTIONS: Final = {
    "1.1": "one room",
    "1.2": "one room of the slowest owner",
    "2": "one room of each owner",
    "3": "every room",
}
POLICIES: Final[tuple[Policy, ...]] = ("fifo", "edfq")
PROMISED: Final = 0.99
ROW: Final = "{:<29}{:>8}{:>7}{:>7}  {:<13}{}"
ROW_WIDTH: Final = 76


class Story:
    """Tells on `console`, unless all is told there in detail."""

    def __init__(self, console: Console, *, silent: bool) -> None:
        self.console = console
        self._silent = silent
        self._step = 0

    @property
    def width(self) -> int:
        """Columns of its lines."""
        return min(WIDTH, self.console.width)

    def begin(self, text: str) -> None:
        """The first paragraph."""
        self._lines(text, "")

    def step(self, text: str) -> None:
        """The title of the next step."""
        self._step += 1
        if not self._silent:
            self.console.print()
            screen.line(self.console, f"[{self._step}/{STEPS}] {text}", "bold cyan")

    def say(self, text: str) -> None:
        """The result of a step."""
        self._lines(text, INDENT)

    def copy(self, text: str) -> None:
        """A line to be copied whole, or a row of a table."""
        if not self._silent:
            screen.as_it_is(self.console, f"{COPIED}{text}")

    def _lines(self, text: str, indent: str) -> None:
        if self._silent:
            return
        for each in textwrap.wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
        ):
            screen.line(self.console, each)


Runs = Mapping[str, Sequence[ClassSummary]]


def comparison(real: Runs, virtual: Runs, width: int) -> list[str]:
    """How many of a hundred answers came in time under FIFO and EDFQ, by kind of question: rows of
    a table, or, where `width` columns do not hold it, some lines for each question."""
    n = sum(each.n for each in virtual["fifo"])
    shares = list(_shares(real, virtual))
    if width < len(COPIED) + ROW_WIDTH:
        return ["in time, of 100 answers here,", f"and of {n:,} simulated", *_narrow(shares)]
    rows = [
        ROW.format("in time, of 100 answers", "", "asked", "here", f"of {n:,} simulated", ""),
        ROW.format("question", "within", "FIFO", "EDFQ", "FIFO", "EDFQ"),
    ]
    rows += [ROW.format(each.question, each.within, *each.here, *each.simulated) for each in shares]
    return [row.rstrip() for row in rows]


class _Shares(NamedTuple):
    """A kind of question, with what FIFO and EDFQ did for it."""

    question: str
    within: str
    here: list[str]
    simulated: list[str]


def _shares(real: Runs, virtual: Runs) -> Iterator[_Shares]:
    of_real = {policy: {each.kind: each for each in runs} for policy, runs in real.items()}
    for fifo, edfq in zip(virtual["fifo"], virtual["edfq"], strict=True):
        here = [of_real[policy].get(fifo.kind) for policy in POLICIES]
        yield _Shares(
            QUESTIONS.get(fifo.kind, fifo.kind),
            f"{fifo.slo_ms:g} ms",
            [_share(each) if each else "–" for each in here],
            [f"{_share(each)} {_kept(each)}" for each in (fifo, edfq)],
        )


def _narrow(shares: Iterable[_Shares]) -> Iterator[str]:
    for each in shares:
        yield f"{each.question}, {each.within}"
        for policy, here, simulated in zip(POLICIES, each.here, each.simulated, strict=True):
            yield f"  {policy.upper()} {here}, simulated {simulated}"


def verdict(virtual: Runs) -> str:
    """A sentence about the orders that kept the promise."""
    missed = {
        policy: [QUESTIONS.get(each.kind, each.kind) for each in runs if _kept(each) == "missed"]
        for policy, runs in virtual.items()
    }
    said = [
        f"{policy.upper()} {'misses it for ' + _list(of) if of else 'keeps it for all'}"
        for policy, of in missed.items()
    ]
    return f"The promise was 99 of 100. Simulated, {', '.join(said)}."


def busy(real: Runs, load: float, cores: int) -> str:
    """A sentence about why EDFQ missed the promise here; empty if it kept it. `load`: processes
    that ran or waited for one of the `cores`."""
    if all(each.within_slo is None or each.within_slo >= PROMISED for each in real["edfq"]):
        return ""
    why = "so few questions vary"
    if load > cores:
        why = f"this machine was busy (load {load:.1f} on {cores} core{'s' * (cores != 1)})"
    return f"Rely on the simulation: {why}."


def not_counted(real: Runs) -> list[str]:
    """Sentences about the questions of the real runs that had no answer, or not a whole one."""
    refused, partial, unanswered = (
        sum(getattr(each, count) for runs in real.values() for each in runs) for count in COUNTS
    )
    said = []
    if refused:
        said.append(
            f"{_of(refused, 'question was', 'questions were')} refused here, at once instead of "
            "answered late: the shares above are of the others."
        )
    if partial:
        answers = _of(partial, "answer", "answers")
        said.append(f"Not in time, too: {answers} here that lacked areas.")
    if unanswered:
        questions = _of(unanswered, "question", "questions")
        said.append(f"Not in time, too: {questions} here without a reply.")
    return said


def _list(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _of(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def _share(summary: ClassSummary) -> str:
    return "–" if summary.within_slo is None else format_kept(summary.within_slo)


def _kept(summary: ClassSummary) -> str:
    over = summary.p99_ms is None or summary.p99_ms > summary.slo_ms
    return "missed" if over else "kept"
