"""Which build is under test, and that importing it leaves the process's arithmetic alone."""

import os

import _core
import _core.histogram
import _core.orderstats
import _core.policy


def test_build_is_the_one_expected() -> None:
    expected = os.environ.get("SANDERLING_EXPECT_BUILD")
    assert _core.BUILD in ([expected] if expected else ["release", "debug"])


def test_denormals_survive_the_import_of_fast_math_code() -> None:
    # On a link line -ffast-math would flush them to zero in the whole process.
    smallest = 5e-324
    assert smallest * float("1") != 0.0
    assert 2.2250738585072014e-308 / float("2") != 0.0
