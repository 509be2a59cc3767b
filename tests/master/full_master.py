"""`sanderling-master` whose disk is full as soon as a handover enters a state: ``full_master.py
source:draining …``, or ``source:draining@4711`` for the disk of that process, too; the rest are the
master's own arguments. A file beside the configuration, ``full``, tells that it is so far."""

import os
import resource
import sys
from pathlib import Path

import psutil

from agent.master import main
from agent.placement.handover.source import Source
from agent.placement.handover.target import Target
from agent.runtime.state_machine import StateMachine

SIDES = {"source": Source, "target": Target}


def fill_at(at, told, others):
    side, state = at.split(":")
    become = StateMachine.become

    def become_full(self, to):
        become(self, to)
        if isinstance(self, SIDES[side]) and to == state and not told.exists():
            told.touch()
            for process in others or (os.getpid(),):
                fill(int(process))

    StateMachine.become = become_full


def fill(process):
    """From now on no file of it may grow; the system calls fail."""
    _, hard = psutil.Process(process).rlimit(psutil.RLIMIT_FSIZE)
    psutil.Process(process).rlimit(psutil.RLIMIT_FSIZE, (0, hard))


if __name__ == "__main__":
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    place, _, processes = sys.argv.pop(1).partition("@")
    config = Path(sys.argv[sys.argv.index("--config") + 1])
    fill_at(place, config.with_name("full"), processes.split(",") if processes else ())
    main.main()
