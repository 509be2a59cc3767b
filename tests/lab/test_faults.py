"""kill −9 of a node, a master and the DRS under load: real processes, and how it is judged."""

import io
import itertools

import pytest
from rich.console import Console

from fleet.simulation.layout import building_fleet, part_of
from fleet.simulation.measures import Outcome
from fleet.simulation.workload import Arrival
from fleet.terminal import screen
from lab.faults import run as fault_run
from lab.faults.fault_schedule import Fault, Line, judge, schedule
from lab.faults.results import table_of

FAULT = Fault("edge node", "iad2-n1", 10.0, 20.0, ("b1/f5/r510",))


def pair(at_s, area, status="complete", latency_ms=50.0, gaps=()):
    arrival = Arrival(1, at_s, "iad1", "narrow", (area,), 60.0, 0.0, 500.0, 1)
    return arrival, Outcome(1, "narrow", 500.0, status, latency_ms, gaps)


def judged(*pairs):
    arrivals, outcomes = zip(*pairs, strict=True)
    return [
        line.ok for line in judge(FAULT, frozenset({"node_down", "timeout"}), arrivals, outcomes)
    ]


GOOD = [
    pair(9.9, "b1/f5/r510", "no reply", None),  # before the fault
    pair(12.0, "b1/f4/r413"),
    pair(12.0, "b1/f5/r510", "partial", 2_100.0, ("timeout",)),
    pair(19.0, "b1/f5/r510", "partial", 2.0, ("node_down",)),
]


def test_the_table_fits_80_columns_also_in_a_file():
    long = "queries to it are answered, partial ones with the reason (node_down, timeout)"
    lines = [Line("edge node", long, long, True), Line("edge node", "by then", "9 of 9", False)]
    file = io.StringIO()
    screen.show_table(Console(file=file, width=200), table_of(lines))
    rows = file.getvalue().splitlines()
    assert max(map(len, rows)) <= 80
    assert not any(row.endswith(" ") for row in rows)
    assert rows[-1].split() == ["by", "then", "9", "of", "9", "NO"]


def test_what_is_expected_is_fine():
    assert judged(*GOOD) == [True, True, True, True]


def test_another_query_that_notices_is_found():
    assert judged(*GOOD, pair(13.0, "b1/f4/r413", "partial", 9.0, ("no_data",)))[0] is False
    slow = [pair(13.0, "b1/f4/r413", latency_ms=501.0)] * 2
    assert judged(*GOOD, *slow) == [True, False, True, True]


def test_a_wrong_reason_and_a_late_answer_are_found():
    assert judged(*GOOD, pair(13.0, "b1/f5/r510", "partial", 9.0, ("no_node",)))[2] is False
    assert judged(*GOOD, pair(13.0, "b1/f5/r510", "partial", 2_501.0, ("timeout",)))[3] is False
    assert judged(*GOOD, pair(13.0, "b1/f5/r510", "no reply", None))[2:] == [False, False]


def test_nothing_measured_is_not_fine():
    assert judged(GOOD[0]) == [False, False, False, False]


def test_faults_come_one_after_the_other():
    faults = schedule(part_of(building_fleet(), 3, 3), "drs", 2.0)
    assert [fault.process for fault in faults] == ["iad2-n1", "iad3", "drs"]
    for before, after in itertools.pairwise(faults):
        assert before.kill_s < before.start_s < after.kill_s


@pytest.mark.long
def test_a_real_run_line_by_line(tmp_path):
    """How fast this machine answers is not tested: what is answered is."""
    options = fault_run.Options(tmp_path, unit_s=2.0, rate_per_s=6.0, seed=1)
    lines = fault_run.run(options, lambda _: None)
    assert {line.fault for line in lines} == {"edge node", "master", "DRS"}
    assert [line for line in lines if not line.ok and not line.timed] == []
