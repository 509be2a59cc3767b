"""Records of a run in virtual time: those of the masters' own schedulers, the same every time."""

from functools import cache
from itertools import islice

import msgspec
from msgspec.structs import replace

from agent.scheduling.events import Instruction, WriteRecord
from agent.wire.base import Policy
from agent.wire.records import AnyRecord, QueryRecord, SubtaskRecord, TaskRecord
from fleet.simulation.layout import building_fleet, part_of
from fleet.simulation.virtual import VirtualFleet, _Plane
from fleet.simulation.workload import Arrival, arrivals
from tests.fleet.spark_jobs.recorded import START

PLAN = part_of(building_fleet(), 2, 2)
QUERIES = 800
RATE_PER_S = 17.0
# The second policy's run goes over the turn of an hour.
BEGIN_S: dict[Policy, float] = {"fifo": 600.0, "edfq": 3_580.0}


class Recorded(VirtualFleet):
    """A virtual fleet that keeps what its masters write."""

    records: list[AnyRecord]

    def _perform(self, plane: _Plane, instructions: list[Instruction], now: float) -> None:
        self.records += [i.record for i in instructions if isinstance(i, WriteRecord)]
        super()._perform(plane, instructions, now)


@cache
def lines() -> tuple[bytes, ...]:
    """The JSON lines of FIFO and then EDFQ under the same load, a hot one."""
    found: list[AnyRecord] = []
    for policy, begin_s in BEGIN_S.items():
        fleet = Recorded(PLAN, policy, warm_samples=500)
        fleet.records = []
        fleet.run(_labelled(policy, arrival) for arrival in _trace())
        offset_ms = round((START.timestamp() + begin_s) * 1e3)
        for record in fleet.records:
            wall_ms = offset_ms + round(record.start_s * 1e3)
            moved = replace(record, wall_ms=wall_ms, start_s=begin_s + record.start_s)
            found.append(_renamed(moved, policy))
    return tuple(map(msgspec.json.encode, found))


def _renamed(record: AnyRecord, policy: Policy) -> AnyRecord:
    # Masters draw ids of tasks anew; in virtual time they repeat.
    if isinstance(record, QueryRecord):
        return replace(record, tasks=tuple(f"{policy} {task}" for task in record.tasks))
    assert isinstance(record, TaskRecord | SubtaskRecord)
    return replace(record, task=f"{policy} {record.task}")


def _trace() -> list[Arrival]:
    return list(islice(arrivals(PLAN, rate_per_s=RATE_PER_S, seed=5), QUERIES))


def _labelled(policy: Policy, arrival: Arrival) -> Arrival:
    # Labels tell runs apart in a demo. Now and then somebody asks for the impossible.
    slo_ms = 1.0 if arrival.number % 25 == 0 else arrival.slo_ms
    return replace(arrival, kind=f"{policy} {arrival.kind}", slo_ms=slo_ms)
