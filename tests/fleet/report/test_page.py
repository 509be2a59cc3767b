"""The page: its numbers are those of its files, and no name from the network is more than text."""

import base64
import csv
import re
from collections import Counter
from itertools import pairwise

import pytest

from fleet.report.page import findings
from fleet.report.page.page import PAGE, PICTURES
from fleet.report.page.shown import Shown
from tests.fleet.report.reading import Page
from tests.fleet.report.samples import START, sample, write_sample

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / PAGE).read_text())


def rows_of(folder, name):
    with (folder / "data" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_numbers_of_the_tables_are_those_of_the_files(folder, page):
    seen = Counter()
    for source, rows in page.tables:
        if not source or source == "climate_days":
            continue
        known = [Counter(row.values()) for row in rows_of(folder, source)]
        for row in rows:
            values = Counter(number.value for number in row)
            assert any(values <= cells for cells in known), (source, row)
            seen[source] += len(row)
    assert set(seen) == {
        "attainment", "client", "contents", "load_curve", "master_load", "move_effects", "moved",
        "node_hours", "processed", "pulled", "quarantined", "sensor_health", "time_spent",
    }  # fmt: skip
    assert sum(seen.values()) > 700


def test_rooms_are_called_as_people_call_them(spark, folder):
    def worst(names):
        return findings.found(Shown(spark, folder, names))["sensors"]["worst"][0]["area"]

    area = worst(None)
    # A cell that a spreadsheet would take for a formula has an apostrophe before it in the file.
    assert area in {row["area"].removeprefix("'") for row in rows_of(folder, "sensor_health")}
    assert worst({area: "Meeting 4.13"}) == f"{area} Meeting 4.13"


def test_what_people_read_is_the_number_rounded(page):
    numbers = [number for _, rows in page.tables for row in rows for number in row]
    for number in numbers:
        exact = float(number.value)
        shown = number.text
        if shown.startswith("> 99.9"):
            assert 0.9995 <= exact < 1 or 99.95 <= exact < 100
            continue
        read = float(re.sub("[ ,%]", "", shown))
        if shown.endswith("%"):
            assert min(abs(read - exact), abs(read - 100 * exact)) < 0.0501, number
        else:
            assert read == pytest.approx(exact, rel=0.006, abs=0.0006), number


def test_sums_at_the_top_are_those_of_the_file(folder, page):
    rows = rows_of(folder, "contents")
    after = [name for name, _ in page.elements].index("dl")
    found = [attributes for name, attributes in page.elements[after:] if name == "data"][:8]
    expected = [len(rows)] + [
        sum(int(row[name]) for row in rows)
        for name in ("nodes", "queries", "readings", "failed", "expired_readings",
                     "expired_files", "quarantined")
    ]  # fmt: skip
    assert [int(n["value"]) for n in found] == expected


def test_days_of_climate_sum_up_the_file(folder, page):
    ((_, rows),) = [t for t in page.tables if t[0] == "climate_days"]
    known = rows_of(folder, "climate_days")
    shown = [[float(number.value) for number in row] for row in rows if row]
    assert sum(row[1] for row in shown) == sum(int(row["readings"]) for row in known)
    assert min(row[3] for row in shown) == min(float(row["minimum"]) for row in known)


def test_names_from_the_network_are_text(folder, page):
    assert {name for name, _ in page.elements} == {
        *("html", "head", "meta", "link", "title", "style", "body", "header", "nav", "main"),
        *("section", "footer", "h1", "h2", "h3", "p", "ul", "li", "dl", "dt", "dd", "div", "a"),
        *("ol", "b", "code", "small", "data", "time", "figure", "img", "figcaption", "details"),
        *("summary", "table", "caption", "span", "thead", "tbody", "tr", "th", "td"),
    }
    assert not [key for _, found in page.elements for key in found if key.startswith("on")]
    assert "<script>alert(1)" in page.text
    assert "\x1b" not in page.text
    assert "\u202e" not in page.text
    assert "x" * 200 not in page.text
    assert "default-src 'none'" in str(page.all("meta"))


def test_nothing_is_fetched_from_elsewhere(folder, page):
    for found in page.all("a", "link"):
        target = found["href"] or ""
        assert target.startswith(("#", "data/", "data:,")), target
        if target.startswith("data/"):
            assert (folder / target).is_file()
    for found in page.all("img"):
        assert (found["src"] or "").startswith("data:image/png;base64,")


def test_pictures_in_the_page_are_those_beside_it(folder, page):
    files = {path.read_bytes() for path in (folder / PICTURES).iterdir()}
    inside = {base64.b64decode((found["src"] or "").split(",")[1]) for found in page.all("img")}
    assert files == inside
    assert len(files) == 10


def test_page_can_be_read_without_seeing_it(page):
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(page.all("caption")) == len(page.all("table")) > 15
    assert all(found["scope"] in ("row", "col") for found in page.all("th"))
    assert all(len(found["alt"] or "") > 60 for found in page.all("img"))
    assert page.all("html") == [{"lang": "en"}]
    targets = {found["id"] for _, found in page.elements if "id" in found}
    assert {(a["href"] or "")[1:] for a in page.all("a") if (a["href"] or "")[0] == "#"} <= targets


def test_without_anything_the_page_says_so(spark, tmp_path):
    write_sample(spark, tmp_path, {"contents": [("iad1", 0, None, None, *[0] * 11)]})
    page = Page((tmp_path / PAGE).read_text())
    assert page.all("img") == []
    assert "There were no queries in this time." in page.text
    assert "There are no readings of this time." in page.text
    assert "Nothing was quarantined." in page.text


def test_a_move_by_hand_is_asked_for(spark, tmp_path):
    rows = sample()
    by_hand = [(*row[:8], "plan", *row[9:]) for row in rows["moved"]]
    tables = {"moved": by_hand, "move_effects": rows["move_effects"]}
    write_sample(spark, tmp_path, tables | {"contents": rows["contents"]})
    cells = re.findall(r"<td>\s*(\w+)\s*</td>", (tmp_path / PAGE).read_text())
    assert cells.count("asked") == len(by_hand) + len(rows["move_effects"])
    assert "plan" not in cells


def asked(policy, name, queries, kept, refused=0):
    """A row of `attainment`, of which only the counts matter here."""
    counts = (queries, queries - refused, 0, refused, kept)
    return (policy, name, "temperature", 99.0, 400.0, *counts, *[None] * 15, 0)


def test_policies_are_compared_by_the_classes_that_they_share(spark, tmp_path):
    rows = [
        asked("fifo", "fifo 1.2", 100, 99),
        asked("edfq", "edfq 1.2", 100, 100),
        asked("edfq", "warm-up", 3_900, 1_000),
        asked("edfq", "One room", 10, 0),
        asked("none", "default p99 400 ms", 3, 0),
        asked("fifo", "refused", 5, 0, refused=5),
        asked("edfq", "refused", 5, 0),
    ]
    found = findings_of(spark, tmp_path, rows)
    assert found["by_policy"] == [
        {"policy": "edfq", "served": 100, "kept": 1.0},
        {"policy": "fifo", "served": 100, "kept": 0.99},
    ]
    assert found["compared"]
    assert found["nowhere"] == 3


def test_where_no_class_is_shared_all_count_but_the_warm_up(spark, tmp_path):
    rows = [
        asked("edfq", "warm-up", 3_900, 1_000),
        asked("edfq", "live", 10, 9),
        asked("edfq", "export", 10, 10),
    ]
    found = findings_of(spark, tmp_path, rows)
    assert found["by_policy"] == [{"policy": "edfq", "served": 20, "kept": 0.95}]
    assert not found["compared"]


def judged(name, queries, kept, high):
    """The same with its attainment, of which `high` is the interval's upper end."""
    first = asked("edfq", name, queries, kept)
    return (*first[:10], kept / queries, 0.0, high, *[100.0] * 12, 0)


def test_what_reached_no_node_was_served_under_no_policy(spark, tmp_path):
    rows = [asked("none", "typo", 4, 0), judged("live", 10, 10, 1.0)]
    found = findings_of(spark, tmp_path, rows)
    assert [row["policy"] for row in found["by_policy"]] == ["edfq"]
    assert (found["classes"], found["nowhere"]) == (1, 4)
    page = Page((tmp_path / PAGE).read_text())
    assert "none kept" not in page.text
    assert "1 of 1 classes of queries kept their objective" in page.text
    assert "4 queries reached no node" in page.text


def test_a_class_missed_its_objective_where_chance_does_not_explain_it(spark, tmp_path):
    rows = [
        judged("kept", 400, 398, 1.0),
        judged("one of sixty", 62, 61, 0.997),
        judged("absurd", 40, 0, 0.09),
    ]
    found = findings_of(spark, tmp_path, rows)
    assert (found["classes"], found["kept"], found["unsure"]) == (3, 1, 1)
    assert [each["class"] for each in found["missed"]] == ["absurd"]
    page = Page((tmp_path / PAGE).read_text())
    assert "1 of 3 classes of queries kept their objective; 1 missed it by so few" in page.text
    assert (
        "absurd (temperature) under edfq did not: 0 % of 40 queries kept p99 ≤ 400 ms." in page.text
    )


def test_a_class_that_missed_its_objective_says_what_its_queries_lacked(spark, tmp_path):
    """As the share is: of those that were served."""
    counts = (367, 29, 9, 329, 22)
    first = asked("edfq", "topic", 360, 22)
    row = (*first[:5], *counts, 22 / 31, 0.0, 0.839, *[100.0] * 12, 7)
    late = [judged(f"late {n}", 400, 300, 0.8) for n in range(3)]
    findings_of(spark, tmp_path, [row, *late])
    page = Page((tmp_path / PAGE).read_text())
    assert (
        "topic (temperature) under edfq did not: 70.9 % of 31 queries kept p99 ≤ 400 ms; "
        "2 answers lacked areas; 7 more answers lacked nothing but readings, which nodes did not "
        "have of that time; 329 more queries were refused." in page.text
    )
    assert "Nor did 1 more." in page.text


def test_a_pull_that_failed_before_one_that_did_not_asks_for_nothing(spark, tmp_path):
    contents = ("iad1", 0, None, None, *[0] * 11)
    came, failed = (
        ("iad1", "iad1/n1", 3, 2, START, "done"),
        ("iad1", "iad1/n2", 3, 1, START, "skipped"),
    )
    rows = [(*each, "", 9, 0, 0, 0) for each in (came, failed)]
    write_sample(spark, tmp_path, {"contents": [contents], "pulled": rows})
    assert findings.found(Shown(spark, tmp_path))["lost"] == [(1, "failed pulls")]


def findings_of(spark, folder, attainment):
    """What the first sentence says of these classes."""
    contents = ("iad1", 0, None, None, *[0] * 11)
    write_sample(spark, folder, {"contents": [contents], "attainment": attainment})
    return findings.found(Shown(spark, folder))["objectives"]
