"""A short form of `make test-sanitized`, which takes all of tests/core and more frames."""

import os
import subprocess
from pathlib import Path

import pytest

# Where bytes from elsewhere, raw indices and hand-made memory are.
TESTS = (
    "tests/core/test_core_build.py",
    "tests/core/test_areas.py",
    "tests/core/test_civ.py",
    "tests/core/test_edf_queue.py",
    "tests/core/test_elements.py",
    "tests/core/test_matching.py",
    "tests/core/test_series.py",
    "tests/fuzz/test_frames.py",
)


@pytest.mark.long
def test_compiled_code_keeps_to_its_memory():
    # A make within make, and a pytest within pytest, take options from there.
    theirs = ("MAKE", "PYTEST_", "SANDERLING_")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    done = subprocess.run(
        ["make", "test-sanitized", f"ARGS={' '.join(TESTS)}"],
        cwd=Path(__file__).parents[2],
        env=ours,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-10_000:]
