"""One command on many hosts: what the shell there is given, and what is shown of it."""

import os
import subprocess

import pytest

from fleet.common import exits
from fleet.inspect.execute import End, command_line, grouped, status_of


def ran(words, **options):
    line = command_line(words, sudo=False, timeout_s=options.pop("timeout_s", 20.0))
    return subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize("word", ["two words", "a'b", '"', "$HOME", "*", ";ls", "`id`", "\\", "-n"])
def test_several_words_arrive_as_they_are(word):
    assert ran(["printf", "%s|", word, "x"]).stdout == f"{word}|x|"


def test_a_single_word_is_a_line_of_the_shell():
    assert ran(["echo a b | tr a-z A-Z; exit 3"]).stdout == "A B\n"
    assert ran(["echo a b | tr a-z A-Z; exit 3"]).returncode == 3


def test_the_users_own_shell_runs_it():
    assert ran(["echo $0"], env={**os.environ, "SHELL": "/bin/bash"}).stdout == "/bin/bash\n"


def test_a_command_that_does_not_end_is_ended_there():
    assert ran(["sleep 60"], timeout_s=0.2).returncode == 124


def test_sudo_never_asks():
    assert command_line(["id"], sudo=True, timeout_s=1.0).startswith("sudo -n -- timeout ")


def test_equal_outputs_are_shown_once_the_most_frequent_first():
    ends = [
        End("n1", 0.1, 0),
        End("n2", 0.1, 0),
        End("n3", 0.1, 1),
        End("n4", 0.1, 0),
        End("n5", 0.1, None, "dead"),
    ]
    outputs = {"n1": "a", "n2": "b", "n3": "a", "n4": "a"}
    assert [tuple(group) for group in grouped(ends, outputs)] == [
        (("n1", "n4"), 0, "a"),
        (("n2",), 0, "b"),
        (("n3",), 1, "a"),
    ]


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ([0, 0], exits.DONE),
        ([0, 1], exits.FAILED),
        ([1, 1], exits.FAILED),
        ([0, None], exits.FAILED),
        ([None, None], exits.NOTHING),
    ],
)
def test_the_exit_status_is_of_all_hosts(found, status):
    assert status_of([End(str(n), 0.1, code) for n, code in enumerate(found)]) == status
