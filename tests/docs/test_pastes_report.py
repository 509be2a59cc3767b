"""The README's "Report", pasted after a demo, as a reader has it then: Spark is set up already."""

import csv

import pytest

from fleet.report.files import DATA
from fleet.report.page.page import PAGE
from fleet.simulation.layout import building_fleet
from tests.docs import pages

README = "README.md"
# It ends by itself, since nobody is there to look at the page.
DEMO = ".venv/bin/fleet demo --seconds 1 --virtual 300 --no-keep"
PATIENCE_S = 1800.0


@pytest.mark.long
def test_the_report_of_a_demo_is_made_as_the_readme_says(tmp_path):
    (tmp_path / ".venv").symlink_to(pages.ROOT / ".venv")
    # `make pipeline` has been run, or no test of Spark would pass.
    script = pages.script(README, "Report").replace("make pipeline\n", "")
    assert "fleet report" in script
    own = {"XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    begun = pages.pasted(f"{DEMO} >demo.txt\n", tmp_path, PATIENCE_S, own)
    pages.require_sound(begun, tmp_path)
    lines = pages.pasted(script, tmp_path, PATIENCE_S, own)
    pages.require_sound(lines, tmp_path)
    page = tmp_path / lines[-1]  # on stdout, after all that was told meanwhile
    assert page.name == PAGE, lines
    text = page.read_text("utf-8")
    assert all(f"iad{n}" in text for n in range(1, 5))
    with (page.parent / DATA / "climate_hours.csv").open(encoding="utf-8") as file:
        areas = {row["area"] for row in csv.DictReader(file)}
    assert areas == {area for iad in building_fleet().iads for area in iad.areas}
