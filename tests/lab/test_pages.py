"""Result pages: marked tables, filled from CSV files."""

import csv
import re
from pathlib import Path

import pytest

from fleet.terminal.tables import Table
from lab import pages
from lab.provenance import Provenance

RESULTS = Path(__file__).parents[2] / "docs/results"
# Each has a writer in lab or bench.
WRITTEN = (
    "autoscaling", "chaos", "failures", "overlay-burst", "overlay-real", "overlay-scale",
    "overlay-tables", "pipeline", "placement-clones", "placement-flock", "placement-homes",
    "placement-loop", "placement-packed", "placement-real",
    "placement-topics", "policy-limits", "push", "quality", "simulation", "soak", "speed",
    "testbed", "testbed-sized",
)  # fmt: skip
ORIGIN = Provenance("fleet lab something --seed 1", 0.25, "2026-01-01")
LOADS = Table("Loads", ("policy", "queries/s", "from"), [("EDFQ", "7.45 ± 0.08", "2 | 3")])


def marked(text: str) -> list[str]:
    return [key for key, _ in pages.MARKED.findall(text)]


@pytest.mark.parametrize("name", WRITTEN)
def test_the_tables_of_a_committed_page_are_those_of_its_data(name):
    text = (RESULTS / f"{name}.md").read_text("utf-8")
    assert pages.filled(text, RESULTS / name) == text
    assert pages.NOT_THERE not in text
    assert sorted(marked(text)) == sorted(path.stem for path in (RESULTS / name).glob("*.csv"))
    assert len(re.findall("<!--", text)) == 2 * len(marked(text))


def test_every_folder_of_tables_has_a_page_that_is_known_here():
    assert sorted(path.name for path in RESULTS.iterdir() if path.is_dir()) == sorted(WRITTEN)


def test_a_folder_without_the_page_gets_one_that_has_the_tables_alone(tmp_path):
    page = pages.write(tmp_path, "some", {"loads": LOADS}, ORIGIN, {"seeds": "3"})
    text = page.read_text("utf-8")
    assert page == tmp_path / "some.md"
    assert marked(text) == ["provenance", "loads"]
    assert "| command | `fleet lab something --seed 1` |\n" in text
    assert "| load average just before | 0.25 |\n| date | 2026-01-01 |\n| seeds | 3 |\n" in text
    # Numbers to the right, and no cell is taken for two.
    assert (
        "## Loads\n\n<!-- table: loads -->\n| policy | queries/s | from |\n| --- | ---: | ---: |\n"
        "| EDFQ | 7.45 ± 0.08 | 2 \\| 3 |\n<!-- end -->\n"
    ) in text
    with (tmp_path / "some" / "loads.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [list(LOADS.headings), ["EDFQ", "7.45 ± 0.08", "2 | 3"]]


def test_a_second_run_keeps_what_is_written_by_hand(tmp_path):
    page = tmp_path / "some.md"
    page.write_text(
        "# By hand\n\nBefore.\n\n<!-- table: loads -->\n| policy | queries/s | from |\n"
        "| :-: | --- | --- |\n| FIFO | 5 | 1 |\n<!-- end -->\n\nAfter, about 5/s.\n\n"
        "<!-- table: gone -->\n| a |\n| --- |\n| 1 |\n<!-- end -->\n"
    )
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "gone.csv").write_text("a\n1\n")
    pages.write(tmp_path, "some", {"loads": LOADS}, ORIGIN)
    # The page chooses how a table is aligned; a number that this run does not have is gone.
    assert page.read_text("utf-8") == (
        "# By hand\n\nBefore.\n\n<!-- table: loads -->\n| policy | queries/s | from |\n"
        "| :-: | --- | --- |\n| EDFQ | 7.45 ± 0.08 | 2 \\| 3 |\n<!-- end -->\n\n"
        "After, about 5/s.\n\n<!-- table: gone -->\n*Not part of this run.*\n<!-- end -->\n"
    )
    assert {path.stem for path in (tmp_path / "some").iterdir()} == {"loads", "provenance"}


@pytest.mark.parametrize(
    ("cells", "side"),
    [
        (["12", "3.5 %"], "---:"),
        (["−5 +3", "+7 (6 … 9)", "–", ""], "---:"),
        (["< 1", "-92.9 %"], "---:"),
        (["12", "bits 0–3"], "---"),
        (["none"], "---"),
    ],
)
def test_columns_of_numbers_go_to_the_right(tmp_path, cells, side):
    table = Table("", ("what",), [(cell,) for cell in cells])
    text = pages.write(tmp_path, "some", {"one": table}, ORIGIN).read_text("utf-8")
    assert f"| what |\n| {side} |\n" in text
