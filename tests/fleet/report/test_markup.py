"""Pieces of pages, pictures and files: numbers to be read, and texts that nobody vouches for."""

import datetime as dt

import pytest
from jinja2 import UndefinedError

from fleet.report.page import drawing, maps, markup
from fleet.report.page.shown import DAY_S, HOUR_S, Grid
from fleet.terminal.csv_cells import cell


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (0.04567, "0.046"), (4.567, "4.57"), (45.67, "45.7"), (456.7, "457"),
     (45_678.9, "45,679"), (-4.567, "-4.57")],
)  # fmt: skip
def test_three_digits_count(value, expected):
    assert markup.digits(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.0, "100 %"), (0.9999, "> 99.9 %"), (0.9994, "99.9 %"), (0.97349, "97.3 %"), (0.0, "0 %"),
     (0.81, "81.0 %")],
)  # fmt: skip
def test_what_is_not_all_is_not_called_all(value, expected):
    assert markup.share(value) == expected


def test_a_template_escapes_what_it_is_given():
    assert markup.render("nothing.html", text='a < b & "c"') == (
        '<p class="note">a &lt; b &amp; &#34;c&#34;</p>'
    )
    row = {"name": "<script>", "is_bad": True}
    columns = [markup.names("name", "who <b>")]
    table = markup.environment().get_template("pieces.html").module.table
    text = table('"caption"', "x' onclick=", columns, [row])
    assert '<th scope="col">who &lt;b&gt;</th>' in text
    assert '<th scope="row">&lt;script&gt;</th>' in text
    assert '<table data-source="x&#39; onclick=">' in text


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="text"):
        markup.render("nothing.html")


def test_names_are_one_short_printable_line():
    assert markup.plain("two\nlines \x1b[0m\u202e") == "two lines ?[0m?"
    assert markup.plain("x" * 100, 5) == "xxxx…"
    assert markup.plain(None) == "None"


def test_an_interval_without_an_end_says_so():
    cell = markup.environment().get_template("pieces.html").module.cell
    row = {"p99_ms": 412.4, "p99_low_ms": 398.0, "p99_high_ms": None}
    assert cell(row, markup.intervals("p99_ms", "p99")) == (
        '<data value="412.4">412</data><small> (<data value="398.0">398</data>–?)</small>'
    )
    row = {"kept": None, "kept_low": None, "kept_high": None}
    assert cell(row, markup.intervals("kept", "kept", markup.share)) == "–"


def test_a_topic_without_an_objective_shows_none():
    cell = markup.environment().get_template("pieces.html").module.cell
    column = markup.objectives("percentile", "objective")
    assert cell({"percentile": None, "slo_ms": None}, column).strip() == "–"
    shown = cell({"percentile": 99.0, "slo_ms": 200.0}, column).strip()
    assert shown == 'p<data value="99.0">99</data> ≤ <data value="200.0">200</data> ms'


@pytest.mark.parametrize("judged", [0, 3])
def test_moves_are_judged_by_objectives_only_where_there_are_some(judged):
    sides = {"before": 90.0, "after": 80.0, "before_way": None, "after_way": None}
    totals = {**sides, "judged": judged, "before_kept": 1, "after_kept": 2}
    top = {"rows": [], "more": 0}
    page = markup.render("moves.html", picture=None, top=top, totals=totals)
    assert ("with an objective" in page) == (judged > 0)
    assert ("80.0 ms after." in page) == (judged == 0)


@pytest.mark.parametrize(("count", "verb"), [(1, "is"), (2, "are")])
def test_one_channel_is_and_two_are(count, verb):
    worst = [{"area": "b1/f4/r413", "channel": "co2", "verdict": "drift", "success": 0.9}]
    sensors = {"all": 66, "bad": count, "worst": worst}
    others = {"rooms": [], "objectives": {"classes": 0}, "time": None, "deadlines": None}
    page = markup.render("findings.html", sensors=sensors, todo=[], **others)
    assert f"channels of sensors {verb} not well" in page


@pytest.mark.parametrize(
    ("value", "expected"),
    [("=1+1", "'=1+1"), ("+1", "'+1"), ("-n3", "'-n3"), ("@x", "'@x"), ("\t=1", "'\t=1"),
     ("a=1", "a=1"), (-1.5, "-1.5"), (None, ""), (True, "true"), ("a\0b", "ab"),
     (dt.datetime(2026, 11, 20, 1, tzinfo=dt.UTC), "2026-11-20T01:00:00Z"),
     (dt.date(2026, 11, 20), "2026-11-20")],
)  # fmt: skip
def test_a_spreadsheet_runs_nothing(value, expected):
    assert cell(value) == expected


def test_a_picture_takes_any_name():
    def paint(_figure, axes):
        axes[0][0].set_title(drawing.text("$\\frac{1}{ 溫 \x1b $"))

    assert drawing.text("$a$ 溫\n") == "$a$ ?"
    assert drawing.draw("x", 200, "", paint).png[1:4] == b"PNG"


def test_the_same_numbers_make_the_same_picture():
    def paint(_figure, axes):
        axes[0][0].plot([1, 2], [3, 4])

    assert drawing.draw("x", 200, "", paint).png == drawing.draw("x", 200, "", paint).png


def times(step_s, count, start=dt.datetime(2026, 11, 20, 22, tzinfo=dt.UTC)):
    return Grid([], [start + n * dt.timedelta(seconds=step_s) for n in range(count)], [], step_s)


def test_hours_of_a_day_are_written_as_times_and_where_the_day_begins():
    assert maps.ticks(times(HOUR_S, 6)) == (
        [-0.5, 0.5, 1.5, 2.5, 3.5, 4.5],
        ["22:00\n20 Nov", "23:00", "00:00\n21 Nov", "01:00", "02:00", "03:00"],
    )


def test_hours_of_several_days_are_written_as_days():
    assert maps.ticks(times(HOUR_S, 72)) == ([2, 26, 50], ["21 Nov", "22 Nov", "23 Nov"])


def test_days_are_written_as_days():
    places, words = maps.ticks(times(DAY_S, 20))
    assert places == [0, 3, 6, 9, 12, 15, 18]
    assert words[:2] == ["20 Nov", "23 Nov"]


def test_lengths_in_words():
    assert [maps.length(s) for s in (HOUR_S, 3 * HOUR_S, DAY_S, 7 * DAY_S)] == [
        "1 hour", "3 hours", "1 day", "7 days"
    ]  # fmt: skip
