"""How `fleet lake sql` shows a result to people."""

import io

from rich.console import Console

from fleet.lake.sql import answers

NAMES = [f"column_{n}" for n in range(12)]
RIGHT = [False, *[True] * 11]
ROW = ["fifo", *(f"{n}.123456" for n in range(1, 12))]


def drawn(console: Console, names: list[str], rows: list[list[str]]) -> str:
    with console.capture() as printed:
        answers.draw(console, names, RIGHT[: len(names)], rows)
    return printed.get()


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)


def test_rows_too_wide_for_the_terminal_have_their_headers_in_them() -> None:
    lines = drawn(terminal(80), NAMES, [ROW, ROW]).splitlines()
    said = " ".join(" ".join(lines).split())
    row = " ".join(["fifo", *(f"{n} {v}" for n, v in zip(NAMES[1:], ROW[1:], strict=True))])
    assert said == f"{row} {row}"
    assert all(len(line) <= 80 for line in lines)


def test_rows_that_fit_stay_a_table() -> None:
    lines = drawn(terminal(80), NAMES[:3], [ROW[:3]]).splitlines()
    assert [line.split() for line in lines] == [NAMES[:3], ROW[:3]]


def test_a_file_gets_lines_of_any_width() -> None:
    lines = drawn(Console(file=io.StringIO(), width=80), NAMES, [ROW]).splitlines()
    assert [line.split() for line in lines] == [NAMES, ROW]
