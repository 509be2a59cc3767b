"""Which build is under test, and that importing it leaves the process's arithmetic alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import _core
import _core.deadlines.histogram
import _core.deadlines.order_statistics
import _core.queue.policy


def test_build_is_the_one_expected() -> None:
    expected = os.environ.get("SANDERLING_EXPECT_BUILD")
    assert _core.BUILD in ([expected] if expected else ["release", "debug", "sanitized"])


def test_denormals_survive_the_import_of_fast_math_code() -> None:
    # On a link line -ffast-math would flush them to zero in the whole process.
    smallest = 5e-324
    assert smallest * float("1") != 0.0
    assert 2.2250738585072014e-308 / float("2") != 0.0


@pytest.mark.skipif(_core.BUILD == "release", reason="the release build checks no raw indices")
def test_a_wrong_index_ends_the_debug_and_the_sanitized_build() -> None:
    program = """if True:
        from _core import _bench
        from _core.deadlines.order_statistics import UnloadedModel
        model = UnloadedModel()
        nodes = model.node_set([model.add_node()])
        _bench.read_row(model, nodes, 1024, 1)
    """
    child = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(_core.__file__).parents[1],  # with -c the first place on the path
    )
    assert child.returncode != 0
    said = "CHECK failed" if _core.BUILD == "debug" else "AddressSanitizer: heap-buffer-overflow"
    assert said in child.stderr
    assert "matrix." in child.stderr
