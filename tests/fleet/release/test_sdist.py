"""An sdist holds all that its wheel is built from: sources of compiled modules, and data."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = "import sys, setuptools.build_meta as b; print(b.build_sdist(sys.argv[1]))"
# What describes drivers and processors, and their tests' files.
NOT_NEEDED = ("README.md", "golden.jsonl", "sample.jsonl", "golden.csv")


@pytest.mark.long
def test_an_sdist_has_every_source_and_all_data(tmp_path):
    listed = subprocess.run(
        ["git", "ls-files", "_core", "agent", "fleet", "processors", "sensors"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\n")[:-1]  # fmt: skip
    made = subprocess.run(
        [sys.executable, "-c", BUILD, tmp_path],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()[-1]  # fmt: skip
    with tarfile.open(tmp_path / made) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    missing = {
        path
        for path in {*listed, "setup.py", "pyproject.toml", "LICENSE", "README.md"} - there
        if not path.endswith(NOT_NEEDED) and "/fixtures/" not in path and "_template" not in path
    }
    assert missing == set()
