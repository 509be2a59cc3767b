"""`fleet lab faults`: kill −9 under load, and its effects on the rest of the fleet.

A small fleet with a market, real processes. One process after the other is killed without warning,
as in a power cut, and started again some seconds later, while queries and watches go on.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from agent.client import Client, NoReplyError, Operator
from agent.wire.messages import Slo
from agent.wire.operator import CreateService, NodeStatus, ServiceReport
from agent.wire.watches import Round
from fleet.simulation import workload
from fleet.simulation.layout import FleetLayout, building_fleet, part_of
from fleet.testbed.load_generator import LoadGenerator
from fleet.testbed.testbed import DRS, Testbed, TestbedError
from lab.faults.fault_schedule import CLASSES, UNITS, Fault, Line, judge, schedule

SERVICE: Final = "temperature"
IADS, NODES = 3, 3
WARM_UP_S: Final = 6.0
WARM_UP_RATE_PER_S: Final = 4.0
WATCH_EVERY_S: Final = 1.0
PATIENCE_S: Final = 30.0
NODE_GAPS: Final = frozenset({"node_down", "timeout"})
MASTER_GAPS: Final = frozenset({"iad_unreachable", "timeout", "node_down", "no_node"})


class Options(Struct, frozen=True):
    """The options of `fleet lab faults`. `unit_s`: see `faults.schedule`."""

    directory: Path
    unit_s: float
    rate_per_s: float
    seed: int


def run(options: Options, say: Callable[[str], None]) -> list[Line]:
    """Run the experiment; returns the findings in order. `say` gets progress messages."""
    plan = part_of(building_fleet(), IADS, NODES)
    with Testbed(plan, options.directory, market=True) as bed:
        say(f"Starting a DRS, {IADS} masters and {IADS * NODES} edge nodes")
        for _ in bed.start():
            pass
        say(f"Setting up the service {SERVICE}")
        report = set_up(bed, SERVICE, PATIENCE_S)
        if not report.ok:
            raise TestbedError(f"service {SERVICE} was not set up: {report.message}")
        return _Run(bed, plan, options, say).findings()


def set_up(bed: Testbed, service: str, timeout_s: float) -> ServiceReport:
    """Set a service up through the first IAD's operator socket."""
    iad = bed.plan.iads[0]
    request = CreateService(
        id="lab",
        service=service,
        capability=service,
        areas=("b1",),
        slo=Slo(99.0, 3_000.0),
        rate_per_s=3.0,
        timeout_ms=timeout_s * 1e3,
    )
    with Operator(bed.operator(iad.name)) as operator:
        return operator.ask_service(request, timeout_s * 1e3 + 2_000.0)


class _Run:
    """The faults of one run, and their observers."""

    def __init__(
        self, bed: Testbed, plan: FleetLayout, options: Options, say: Callable[[str], None]
    ) -> None:
        self._bed = bed
        self._plan = plan
        self._options = options
        self._say = say
        self._faults = schedule(plan, DRS, options.unit_s)
        self._due = [(f.kill_s, f, True) for f in self._faults]
        self._due += [(f.start_s, f, False) for f in self._faults]
        self._due.sort(key=lambda due: due[0])
        self._seen: dict[str, list[Line]] = {fault.name: [] for fault in self._faults}
        self._threads: list[threading.Thread] = []

    def findings(self) -> list[Line]:
        """Apply load, kill, observe."""
        options, plan = self._options, self._plan
        node, master, _directory = self._faults
        # Clients of the killed master are judged separately.
        schedulers = FleetLayout(tuple(iad for iad in plan.iads if iad.name != master.process))
        addresses = {iad.name: self._bed.public(iad.name) for iad in schedulers.iads}
        seconds = UNITS * options.unit_s
        with LoadGenerator(addresses) as load:
            self._say("Measuring the nodes")
            warm_up = [
                a
                for a in workload.warm_up(
                    plan,
                    seconds=WARM_UP_S,
                    rate_per_s=WARM_UP_RATE_PER_S,
                    seed=options.seed,
                    services=(SERVICE,),
                )
                if a.scheduler in addresses
            ]
            load.replay(warm_up, workload.WARM_UP, lambda _now, _answered: None)
            trace = [
                a if a.scheduler in addresses else _elsewhere(a, schedulers)
                for a in workload.within(
                    workload.arrivals(
                        plan,
                        rate_per_s=options.rate_per_s,
                        seed=options.seed,
                        classes=CLASSES,
                        services=(SERVICE,),
                    ),
                    seconds,
                )
            ]
            self._start(self._watch, master, seconds)
            self._say(f"{len(trace)} queries in {seconds:g} s")
            outcomes = load.replay(trace, "faults", self._tick)
        for thread in self._threads:
            thread.join()
        gaps = {node.name: NODE_GAPS, master.name: MASTER_GAPS}
        lines = []
        for fault in self._faults:
            lines += judge(fault, gaps.get(fault.name, frozenset()), trace, outcomes)
            lines += self._seen[fault.name]
        return lines

    def _tick(self, now_s: float, _answered: int) -> None:
        while self._due and self._due[0][0] <= now_s:
            _, fault, kill = self._due.pop(0)
            if kill:
                self._say(f"kill -9 of the {fault.name}, {fault.process}")
                self._bed.kill(fault.process)
                if fault.process == DRS:
                    self._start(self._set_up_without_directory, fault)
            else:
                self._say(f"{fault.process} starts again")
                self._bed.spawn(fault.process)
                looks = {"edge node": self._node_back, "master": self._master_back}
                self._start(looks.get(fault.name, self._directory_back), fault)

    def _start(self, look: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=look, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _note(self, fault: Fault, expected: str, seen: str, *, ok: bool) -> None:
        self._seen[fault.name].append(Line(fault.name, expected, seen, ok))

    # --- separate observers ---------------------------------------------------------------------

    def _node_back(self, fault: Fault) -> None:
        iad = self._plan.iad_of(fault.process).name
        started_s = time.monotonic()
        ok = self._until(
            lambda: any(n.node == fault.process and n.state == "live" for n in self._nodes(iad))
        )
        self._note(fault, "it rejoins by itself", _after(started_s), ok=ok)

    def _master_back(self, fault: Fault) -> None:
        started_s = time.monotonic()
        nodes = len(fault.areas)  # one of each
        ok = self._until(
            lambda: sum(n.state == "live" for n in self._nodes(fault.process)) == nodes
        )
        self._note(fault, "its nodes rejoin by themselves", _after(started_s), ok=ok)
        ok = self._until(lambda: self._ask_all(fault.process) == "complete")
        self._note(
            fault,
            "it finds service and pool on disk: a query to it for all IADs is complete",
            _after(started_s),
            ok=ok,
        )

    def _directory_back(self, fault: Fault) -> None:
        started_s = time.monotonic()
        reports: list[ServiceReport] = []

        def created() -> bool:
            reports.append(set_up(self._bed, "humidity", 5.0))
            return reports[-1].ok

        ok = self._until(created)
        members = len(reports[-1].services[0].members) if ok else 0
        self._note(
            fault,
            "it finds the registrations on disk: a new service has all IADs",
            f"{members} IADs, {_after(started_s)}",
            ok=members == IADS,
        )

    def _set_up_without_directory(self, fault: Fault) -> None:
        started_s = time.monotonic()
        report = set_up(self._bed, "humidity", 2.0)
        self._note(
            fault,
            "a new service is refused in words, at once or by its timeout",
            f"{time.monotonic() - started_s:.1f} s: {report.message}",
            ok=not report.ok,
        )

    def _watch(self, fault: Fault, seconds: float) -> None:
        """A stream at the killed master itself: every round arrives once, in order."""
        rounds: list[Round] = []
        last = int(seconds / WATCH_EVERY_S)
        try:
            with Client(self._bed.public(fault.process)) as client:
                watch = client.watch(
                    ["b1"],
                    style="streaming",
                    interval_s=WATCH_EVERY_S,
                    lasting_s=seconds,
                    latency_ms=800.0,
                    service=SERVICE,
                )
                with watch as stream:
                    rounds.extend(stream)
        except NoReplyError as error:
            self._note(fault, "a stream at it goes on", str(error), ok=False)
            return
        numbers = [each.number for each in rounds]
        tiled = all(a.end_ms == b.start_ms for a, b in itertools.pairwise(rounds))
        partial = sum(each.answer.status != "complete" for each in rounds)
        self._note(
            fault,
            "a stream of readings at it goes on, every round once and in order",
            f"{len(numbers)} of {last} rounds, windows end to end: {'yes' if tiled else 'no'}, "
            f"{partial} partial",
            ok=numbers == list(range(1, last + 1)) and tiled,
        )

    def _nodes(self, iad: str) -> list[NodeStatus]:
        with Operator(self._bed.operator(iad)) as operator:
            try:
                return list(operator.status(500.0).nodes)
            except NoReplyError:
                return []

    def _ask_all(self, iad: str) -> str:
        with Client(self._bed.public(iad)) as client:
            try:
                answer = client.query(
                    ["b1"], last_s=60.0, latency_ms=1_200.0, form="aggregate", service=SERVICE
                )
            except NoReplyError:
                return "no reply"
        return answer.status

    def _until(self, condition: Callable[[], bool]) -> bool:
        give_up_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > give_up_s:
                return False
            time.sleep(0.05)
        return True


def _elsewhere(arrival: workload.Arrival, schedulers: FleetLayout) -> workload.Arrival:
    """The same arrival, at a query scheduler that stays up."""
    chosen = schedulers.iads[arrival.number % len(schedulers.iads)].name
    return msgspec.structs.replace(arrival, scheduler=chosen)


def _after(started_s: float) -> str:
    return f"{time.monotonic() - started_s:.1f} s after its start"
