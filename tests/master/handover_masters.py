"""Three masters between two of which topics move; publisher and subscriber are at the third."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

from agent.client import Operator
from agent.wire.handover import ListMoves, MoveUnit
from agent.wire.topics import CreateTopic, ListTopics
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import PATIENCE_S, wait_until
from tests.master.push_rig import PushMaster

PATIENCE_MS = PATIENCE_S * 1e3
KILLED = Path(__file__).with_name("killed_master.py")
IADS = ("a", "b", "s")


def section(iad, addresses):
    """Pool and overlay: `s` is between the other two."""
    text = f'[overlay]\nvertex = "{iad}"\nlinks = [["a", "s"], ["s", "b"]]\n'
    for other in "ab" if iad == "s" else "s":
        text += f'[[overlay.neighbour]]\niad = "{other}"\nvertex = "{other}"\ncluster = 0\n'
        text += f'address = "{addresses[other]}"\n'
    for other, address in addresses.items():
        text += f'[[pool]]\niad = "{other}"\naddress = "{address}"\nareas = ["b1/{other}"]\n'
    return text


class Masters:
    """They run until `stop`."""

    def __init__(self, folder: Path, reach: Callable[[str], str] = str, **besides: str) -> None:
        """`besides`: what is in their configurations, too, by IAD. `reach`: where masters have an
        address of another one, such as at a proxy before it."""
        addresses = {iad: free_address() for iad in IADS}
        near = {iad: reach(address) for iad, address in addresses.items()}
        self.all = {
            iad: PushMaster(folder / iad, iad, address, section(iad, near) + besides.get(iad, ""))
            for iad, address in addresses.items()
        }
        self.wait_for_links()

    def __getitem__(self, iad: str) -> PushMaster:
        return self.all[iad]

    def wait_for_links(self) -> None:
        for iad, master in self.all.items():
            master.wait_for_links(2 if iad == "s" else 1)
        for one in "ab":
            self[one].wait_for(
                lambda one=one: self[one].status().unreachable_iads, lambda gone: not gone
            )

    def stop(self) -> None:
        for master in self.all.values():
            master.stop(signal.SIGKILL)

    # --- what operators do -----------------------------------------------------------------------

    def ask(self, iad, request):
        with Operator(self[iad].operator) as operator:
            if isinstance(request, MoveUnit):
                # A target that was killed, or is late on a busy machine, is reached a little later.
                return wait_until(
                    lambda: operator.ask_move(request, PATIENCE_MS),
                    lambda report: "cannot be reached now" not in report.message,
                )
            if isinstance(request, ListMoves):
                return operator.ask_move(request, PATIENCE_MS)
            return operator.ask_topic(request, PATIENCE_MS)

    def create(self, iad, topic) -> None:
        report = self.ask(iad, CreateTopic("c", topic))
        assert report.ok, report.message

    def move(self, name, source, target) -> None:
        """Begin to move the topic."""
        report = self.ask(source, MoveUnit("m", "processor", name, target))
        assert report.ok, report.message

    def moves(self, iad):
        return self.ask(iad, ListMoves("l")).moves

    def topics(self, iad) -> list[str]:
        return [each.topic.name for each in self.ask(iad, ListTopics("l")).topics]

    def homes(self, name) -> list[str]:
        """Where the topic lives."""
        return [iad for iad in "ab" if name in self.topics(iad)]

    def wait_until_over(self, source) -> None:
        """Until no move from there is under way."""
        wait_until(
            lambda: [each.state for each in self.moves(source)],
            lambda states: {*states} <= {"settled", "aborted"},
        )

    # --- kills -----------------------------------------------------------------------------------

    def kill_at(self, iad, state, other="") -> None:
        """Start it anew, to be killed when a handover is so far, and the `other` at that moment."""
        master = self[iad]
        master.stop()
        also = f"@{self[other].process.pid}" if other else ""
        master.command = (sys.executable, KILLED, f"{state}{also}")
        master.start()
        self.wait_for_links()

    def wait_for_kill(self, iad, run) -> bool:
        """Whether it was killed; `run(condition)` lets the world go on."""
        process = self[iad].process
        return run(lambda: process.poll() is not None)

    def restart(self, iad, until="") -> None:
        """Start it again, to be killed in that state, if one is given."""
        master = self[iad]
        master.stop(signal.SIGKILL)
        killed = (sys.executable, KILLED, until)
        master.command = killed if until else (installed("sanderling-master"),)
        AgentProcess.start(master)
