"""Ctrl-C, which a terminal sends to an experiment and all its processes: it ends at once, and no
process tells of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab import spawned
from testkit.agent_process import LISTENS
from testkit.waiting import wait_until

FINDS = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
ENDLESS = """
import signal, sys
from pathlib import Path
from lab.{module} import {name}

def work(told):
    Path(told).touch()
    signal.pause()

if __name__ == "__main__":
    {run}
"""


@pytest.mark.parametrize(
    ("module", "name", "run"),
    [
        ("quality.campaign", "run_all", "run_all(work, sys.argv[1:], 1)"),
        ("overlay.alone", "run", "run(work, sys.argv[1:], 1)"),
    ],
)
def test_ctrl_c_ends_what_is_at_work_and_begins_nothing_more(tmp_path, module, name, run):
    program = tmp_path / "program.py"
    program.write_text(ENDLESS.format(module=module, name=name, run=run))
    told = [tmp_path / str(number) for number in range(20)]
    command = [*LISTENS, sys.executable, program, *told]
    # A process group of its own, to all of which the signal goes, as from a terminal.
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, process_group=0, env=FINDS
    ) as process:
        wait_until(told[0].exists)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert said.count("Traceback") == 1  # of the program itself
    assert not told[-1].exists()


def blocked(_: object) -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_processes_take_no_interrupt_from_their_first_moment():
    with spawned.performing(blocked, range(3), 2, each_anew=True) as found:
        assert [*found] == [True] * 3
    assert not blocked(None)


def test_a_process_takes_interrupts_where_it_says_so():
    with spawned.held():
        with spawned.taken():
            assert not blocked(None)
        assert blocked(None)
    assert not blocked(None)
