"""`sanderling-master` that ends by SIGKILL as soon as a handover enters a state:
``killed_master.py source:draining …``, or ``target:draining:written`` when the record of that state
is on disk; the rest are the master's own arguments. With ``source:draining@4711`` the process of
that number is killed a moment before."""

import os
import signal
import sys

from agent.master import main
from agent.placement.handover.events import Written
from agent.placement.handover.holder import Holder
from agent.placement.handover.source import Source
from agent.placement.handover.target import Target
from agent.runtime.state_machine import StateMachine

SIDES = {"source": Source, "target": Target}


def kill_at(at, other=""):
    """Patch the machines of this process."""
    side, state, written = f"{at}:".split(":")[:3]

    def die():
        for process in filter(None, (other, os.getpid())):
            os.kill(int(process), signal.SIGKILL)

    become, handle = StateMachine.become, Holder.handle

    def become_or_die(self, to):
        become(self, to)
        if not written and isinstance(self, SIDES[side]) and to == state:
            die()

    def handle_or_die(self, event, now, sender=""):
        machine = self.machine
        if (
            written
            and isinstance(event, Written)
            and isinstance(machine, SIDES[side])
            and machine.state == state
        ):
            die()
        return handle(self, event, now, sender)

    StateMachine.become, Holder.handle = become_or_die, handle_or_die


if __name__ == "__main__":
    kill_at(*sys.argv.pop(1).split("@"))
    main.main()
