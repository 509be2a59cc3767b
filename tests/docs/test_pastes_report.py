"""The README's "Report", pasted after a demo, as a reader has it then: Spark is set up already."""

import pytest

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
    [page] = tmp_path.rglob("report*.html")
    assert str(page.relative_to(tmp_path)) in "\n".join(lines), lines
    text = page.read_text("utf-8")
    for room in ("b1/f4/r413", "b1/f6/r640"):
        assert room in text
