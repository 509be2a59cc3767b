"""The picture of load: every policy is drawn, and what is drawn rises with the load."""

from itertools import pairwise

import pytest

from fleet.report.page import drawing
from fleet.report.page.sections import load
from fleet.report.page.shown import TABLES, Top
from tests.fleet.report.samples import load_curve

pytest.importorskip("matplotlib")  # comes with `make pipeline`
[TABLE] = [table for table in TABLES if table.name == "load_curve"]
COLUMNS = [column.name for column in TABLE.columns]


class Lake:
    """The table of a report that has only this one."""

    def __init__(self, rows):
        self._rows = [dict(zip(COLUMNS, row, strict=True)) for row in rows]

    def top(self, name, order, most):
        assert name == "load_curve"
        rows = sorted(self._rows, key=lambda row: [row[each] for each in order])
        return Top(rows[:most], len(rows))


@pytest.fixture
def lines(monkeypatch):
    """Of each picture: its title → label of a policy → the line of means, then of tails."""
    found = {}
    draw = drawing.draw

    def seen(name, height, alt, paint, **more):
        def painted(picture, axes):
            paint(picture, axes)
            for axis in axes[0]:
                title = axis.get_title(loc="left")
                found[title] = [(line.get_color(), *line.get_data()) for line in axis.lines]

        return draw(name, height, alt, painted, **more)

    monkeypatch.setattr(drawing, "draw", seen)
    return found


def test_both_policies_are_drawn_and_rise_with_the_load(lines):
    section = load.section(Lake(load_curve()))
    assert set(lines) == {"Queueing of a subtask", "Response time"}
    for drawn in lines.values():
        colours = [colour for colour, _, _ in drawn]
        assert sorted(colours) == sorted([drawing.POLICIES["edfq"], drawing.POLICIES["fifo"]] * 2)
        for _, rates, values in drawn:
            assert len(rates) > 10
            assert all(a < b for a, b in pairwise(rates))
            assert all(a < b for a, b in pairwise(values))
    assert "At the highest load: edfq 32 ms of queueing" in section.pictures[0].alt
    assert "fifo 51 ms of queueing" in section.pictures[0].alt


def test_of_one_load_no_curve_is_drawn(lines):
    steady = [(row[0], 9.0 + n % 3, *row[2:]) for n, row in enumerate(load_curve())]
    section = load.section(Lake(steady))
    assert "That is no curve" in section.body
    for drawn in lines.values():
        assert {colour for colour, _, _ in drawn} == {
            drawing.POLICIES["edfq"], drawing.POLICIES["fifo"],
        }  # fmt: skip
