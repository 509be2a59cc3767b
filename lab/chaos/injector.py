"""Carries faults out on the processes of a fleet, each at its time, and ends them."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import psutil
from msgspec.structs import replace

from agent.client import NoReplyError, Operator
from fleet.testbed.keyring import OPERATOR
from fleet.testbed.processes import Child
from fleet.testbed.testbed import Testbed
from lab.chaos.fault_plan import Fault
from testkit.damage import HISTORY, damaged
from testkit.network import Network
from testkit.preload import Preload

ANSWER_MS: Final = 500.0


def at_once(_fault: Fault) -> None:
    """Nothing has to come before a fault."""


class Injector:
    """Hurts `bed`, whose processes reach each other over `network` and run on `machine`. Before a
    fault begins, `wait` returns."""

    def __init__(
        self,
        bed: Testbed,
        network: Network,
        machine: Preload,
        seed: int,
        wait: Callable[[Fault], None] = at_once,
    ) -> None:
        self._wait = wait
        self._bed = bed
        self._network = network
        self._machine = machine
        self._masters = {iad.name for iad in bed.plan.iads}
        self._draw = random.Random(f"{seed} damage")

    def carry_out(self, planned: Sequence[Fault], now_s: Callable[[], float]) -> Iterator[Fault]:
        """Each fault as it came, perhaps later than planned, when it is over."""
        moments = [(each.from_s, 0, number) for number, each in enumerate(planned)]
        moments += [(each.until_s, 1, number) for number, each in enumerate(planned)]
        begun: dict[int, Fault] = {}
        for at_s, over, number in sorted(moments):
            time.sleep(max(0.0, at_s - now_s()))
            if not over:
                self._wait(planned[number])
                from_s = round(now_s(), 2)
                # Without a disk no agent starts: systemd would start it again.
                if planned[number].kind != "full disk" or self._work(planned[number].targets):
                    begun[number] = replace(planned[number], from_s=from_s)
                    self._begin(planned[number])
            elif number in begun:
                self._end(planned[number])
                yield replace(begun[number], until_s=round(now_s(), 2))

    def _begin(self, fault: Fault) -> None:
        if fault.kind == "restart":
            self._bed.stop(fault.targets)
        elif fault.kind == "partition":
            self._network.cut(fault.targets)
        elif fault.kind == "loss":
            self._network.lose(fault.targets)
        elif fault.kind == "resets":
            self._network.reset(fault.targets)
        else:
            for name in fault.targets:
                self._hurt(fault, name)

    def _hurt(self, fault: Fault, name: str) -> None:
        match fault.kind:
            case "freeze":
                self._bed.child(name).signal(signal.SIGSTOP)
            case "kill worker":
                _kill_worker(self._bed.child(name))
            case "full disk":
                _limit_files(self._bed.child(name), 0)
            case "slow disk":
                self._machine.delay(name, fault.amount)
            case "clock step":
                self._machine.step(name, fault.amount)
            case _:
                self._bed.kill(name)

    def _end(self, fault: Fault) -> None:
        if fault.kind == "partition":
            self._network.join(fault.targets)
        elif fault.kind == "loss":
            self._network.lose_no_more(fault.targets)
        elif fault.kind == "resets":
            self._network.reset_no_more(fault.targets)
        else:
            for name in fault.targets:
                self._mend(fault, name)

    def _mend(self, fault: Fault, name: str) -> None:
        if fault.kind == "damage":
            self._damage(name)
        match fault.kind:
            case "freeze":
                self._bed.child(name).signal(signal.SIGCONT)
            case "kill worker":
                pass  # its master starts another one
            case "full disk":
                _limit_files(self._bed.child(name), psutil.RLIM_INFINITY)
            case "slow disk":
                self._machine.delay(name, 0)
            case "clock step":
                self._machine.step(name, 0)
            case _:
                self._bed.spawn(name)

    def _work(self, names: Sequence[str]) -> bool:
        """Whether masters answer, and masters of nodes know them live."""
        for name in names:
            iad = name if name in self._masters else self._bed.plan.iad_of(name).name
            with Operator(self._bed.operator(iad), self._bed.keys(OPERATOR, iad)) as operator:
                try:
                    nodes = operator.status(ANSWER_MS).nodes
                except NoReplyError:
                    return False
            if iad != name and not any(n.node == name and n.state == "live" for n in nodes):
                return False
        return True

    def _damage(self, name: str) -> None:
        folder = self._bed.folder(name)
        files = {path.name: path.read_bytes() for path in folder.glob(f"{HISTORY}*")}
        changed, _ = damaged(files, self._draw)
        for each, content in changed.items():
            if content != files[each]:
                (folder / each).write_bytes(content)


def _kill_worker(child: Child) -> None:
    with suppress(psutil.Error):
        workers = psutil.Process(child.pid).children(recursive=True)
        for worker in sorted(workers, key=lambda each: each.pid)[:1]:
            worker.kill()


def _limit_files(child: Child, most_bytes: int) -> None:
    """From now on the process can write no file beyond so many bytes; the system calls fail. If it
    has ended, that is found at the end of the history."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(child.pid)
        _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most_bytes, hard))
