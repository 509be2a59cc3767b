"""Standard streams of a command that are closed or full."""

from __future__ import annotations

import subprocess

import pytest

from fleet.common import exits
from fleet.testbed.processes import agent_command


@pytest.mark.parametrize(
    ("streams", "status", "said"),
    [
        (">/dev/full", exits.OUTPUT, "fleet: standard output: No space left on device\n"),
        (">&-", exits.OUTPUT, "fleet: standard output is closed\n"),
        (">/dev/full 2>/dev/full", exits.OUTPUT, ""),
        (">&- 2>&-", exits.OUTPUT, ""),
        ("2>&-", exits.DONE, ""),
        ("<&-", exits.DONE, ""),
    ],
)
def test_what_cannot_be_printed_is_one_line_and_a_status_of_its_own(streams, status, said):
    [fleet] = agent_command("fleet")
    line = f"{fleet} completion bash {streams}"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (status, said)
    assert ("_fleet_completion" in done.stdout) is (status == exits.DONE)


def test_a_command_that_prints_nothing_needs_no_output():
    [fleet] = agent_command("fleet")
    line = f"{fleet} query --area b1 --master tcp://127.0.0.1:1 --timeout 50ms >&-"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == exits.NO_REPLY
