"""The one way in which tests wait for something that they can only ask for."""

import subprocess
import sys

import pytest

from testkit.waiting import wait_until


def test_it_gives_the_first_that_is_wanted():
    numbers = iter(range(10))
    assert wait_until(lambda: next(numbers), lambda n: n == 3, pause_s=0.0) == 3
    assert next(numbers) == 4


def test_without_a_condition_what_is_found_has_to_be_something():
    found = iter([0, "", None, "it"])
    assert wait_until(lambda: next(found), pause_s=0.0) == "it"


def test_after_the_deadline_it_tells_what_was_found_last():
    with pytest.raises(AssertionError, match="waited 0 s; links up: 'one of two'"):
        wait_until(lambda: "one of two", lambda _: False, patience_s=0.0, what="links up:")


def test_the_end_of_a_process_ends_the_wait():
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True
    ) as process:

        def look():
            if not process.stdin.closed:
                process.stdin.write("\n")
                process.stdin.flush()
            return "nothing"

        with pytest.raises(AssertionError, match="a process ended; said 'nothing'"):
            wait_until(look, lambda _: False, processes=[process], pause_s=30.0, what="said")
