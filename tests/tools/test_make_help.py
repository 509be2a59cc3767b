"""`make` alone: every target that a person may ask for, in a terminal of 80 columns."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_target_is_listed_in_80_columns():
    done = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    listed = re.findall(r"^  make (\S+) +\S", done.stdout, re.MULTILINE)
    assert sorted(listed) == sorted(phony[1].split())
