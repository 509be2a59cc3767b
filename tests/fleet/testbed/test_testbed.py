"""The testbed: real answers from real processes, and what is left when some of them die."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from agent.client import Client
from agent.wire.base import Policy
from agent.wire.messages import Answer
from agent.wire.operator import IadStatus
from fleet.testbed.processes import Child, Leash, interrupts_deferred
from fleet.testbed.testbed import Testbed, TestbedError
from testkit.waiting import PATIENCE_S, wait_until
from tests.fleet.conftest import SMALL, listens, recording, small_bed

ALL = [node.area for node in SMALL.nodes]
NODE = SMALL.iads[0].nodes[1]
OTHER = SMALL.iads[1]


def ask(bed: Testbed, areas: list[str], timeout_ms: float = 20_000.0, iad: str = "iad1") -> Answer:
    with Client(bed.public(iad)) as client:
        return client.query(areas, last_s=10_000, latency_ms=5_000, timeout_ms=timeout_ms)


def states(statuses: dict[str, IadStatus]) -> dict[str, str]:
    return {node.node: node.state for status in statuses.values() for node in status.nodes}


def whole(statuses: dict[str, IadStatus]) -> bool:
    """Every master there and reaching the others, every node live."""
    return (
        len(statuses) == len(SMALL.iads)
        and not any(status.unreachable_iads for status in statuses.values())
        and list(states(statuses).values()) == ["live"] * len(SMALL.nodes)
    )


def gaps(answer: Answer) -> dict[str, str]:
    return {gap.area: gap.reason for gap in answer.missing}


def test_a_route_is_taken_between_processes_and_a_prefix_before_their_commands(
    tmp_path: Path,
) -> None:
    ways: set[tuple[str, str]] = set()

    def route(source: str, target: str, address: str) -> str:
        ways.add((source, target))
        return address.replace("127.0.0.1", "localhost") if source == "iad1" else address

    with Testbed(SMALL, tmp_path, route=route, under=lambda name: ("env", f"N={name}")) as bed:
        config = (bed.folder("iad1") / "config.toml").read_text()
        assert f"localhost:{bed.public('iad2').rpartition(':')[2]}" in config
        assert bed.public("iad1") in config
        nodes = {(node.name, iad.name) for iad in SMALL.iads for node in iad.nodes}
        assert ways >= {("iad1", "iad2"), ("iad2", "iad1"), *nodes}
        bed.spawn("iad1")
        environment = Path(f"/proc/{bed.child('iad1').pid}/environ")
        wait_until(environment.read_bytes, lambda text: b"N=iad1" in text)


def test_a_process_that_was_stopped_is_none_that_ended_by_itself(bed: Testbed) -> None:
    bed.stop([NODE.name])
    bed.check()
    bed.wait_until(lambda statuses: not whole(statuses))
    bed.spawn(NODE.name)
    bed.wait_until(whole)


@pytest.mark.parametrize("iad", ["iad1", "iad2"])
def test_a_query_to_any_master_gets_the_recorded_values(bed: Testbed, iad: str) -> None:
    answer = ask(bed, ["b1"], iad=iad)
    assert answer.status == "complete"
    assert [result.area for result in answer.results] == sorted(ALL)
    rooms = {node.area: node.room for node in SMALL.nodes}
    for result in answer.results:
        rows = recording(rooms[result.area])
        series = result.series
        assert series is not None
        assert series.source_time_ms is not None
        # A reading a second, but for those that a starting or busy machine missed.
        assert len(series.time_ms) > 9_000
        got = zip(
            series.source_time_ms.numbers(),
            series.values["temperature"].numbers(),
            series.values["humidity"].numbers(),
            strict=True,
        )
        wrong = [time for time, *values in got if tuple(values) != rows[time]]
        assert wrong == []


def test_a_killed_node_leaves_a_gap_and_comes_back(bed: Testbed) -> None:
    bed.kill(NODE.name)
    # Not yet lost, or just lost: the answer comes at its timeout at the latest.
    early = ask(bed, ["b1"], timeout_ms=4_000.0)
    assert early.status == "partial"
    assert gaps(early).keys() == {NODE.area}
    assert gaps(early)[NODE.area] in {"timeout", "node_down"}

    bed.wait_until(lambda statuses: states(statuses)[NODE.name] == "lost", PATIENCE_S)
    late = ask(bed, ["b1"])
    assert late.status == "partial"
    assert gaps(late) == {NODE.area: "node_down"}
    assert {result.area for result in late.results} == set(ALL) - {NODE.area}

    bed.spawn(NODE.name)
    bed.wait_until(whole, PATIENCE_S)
    assert ask(bed, ["b1"]).status == "complete"


def test_a_killed_master_takes_only_its_own_areas_with_it(bed: Testbed) -> None:
    bed.kill(OTHER.name)
    own = [node.area for node in SMALL.iads[0].nodes]
    assert ask(bed, own).status == "complete"
    both = ask(bed, ["b1"])
    assert both.status == "partial"
    assert gaps(both) == dict.fromkeys(OTHER.areas, "iad_unreachable")
    assert {result.area for result in both.results} == set(own)

    bed.spawn(OTHER.name)
    bed.wait_until(whole, PATIENCE_S)
    assert ask(bed, ["b1"]).status == "complete"


def test_policy_is_set_everywhere(bed: Testbed) -> None:
    policies: tuple[Policy, ...] = ("fifo", "edfq")
    for policy in policies:
        bed.set_policy(policy)
        assert {status.policy for status in bed.statuses().values()} == {policy}


def test_leaving_ends_every_process_and_socket(tmp_path: Path) -> None:
    with small_bed(tmp_path) as bed:
        for _ in bed.start():
            pass
        names = [*(iad.name for iad in SMALL.iads), *(node.name for node in SMALL.nodes)]
        children = [bed.child(name) for name in names]
        addresses = bed.addresses
        assert all(listens(address) for address in addresses)
    assert not any(child.running for child in children)
    assert not any(listens(address) for address in addresses)
    # An orderly end, not a kill: every node said so.
    assert all("stopping" in bed.child(node.name).last_lines()[-1] for node in SMALL.nodes)


def test_last_lines_are_those_of_this_start(tmp_path: Path) -> None:
    log, leash = tmp_path / "output.log", Leash()
    for said in ("joined", "refused"):
        child = Child("node", ["echo", said], log, leash)
        assert child.wait(PATIENCE_S)
    leash.drop()
    assert child.last_lines() == ["refused"]


def test_leaving_in_the_middle_of_the_start_ends_what_was_started(tmp_path: Path) -> None:
    with small_bed(tmp_path) as bed:
        progress = bed.start()
        next(progress)
        masters = [bed.child(iad.name) for iad in SMALL.iads]
        progress.close()
    assert not any(master.running for master in masters)


def test_a_child_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with small_bed(tmp_path) as bed:
        config = tmp_path / "iad1" / NODE.name / "config.toml"
        config.write_text("sensorr = []\n" + config.read_text("utf-8"), "utf-8")
        with pytest.raises(TestbedError) as caught:
            for _ in bed.start():
                pass
    assert f"{NODE.name} ended with exit status" in str(caught.value)
    assert "sensorr" in str(caught.value)


STARTER = """
import sys
from pathlib import Path
from tests.fleet.conftest import SMALL, small_bed

with small_bed(Path(sys.argv[1])) as bed:
    for _ in bed.start():
        pass
    names = [*(i.name for i in SMALL.iads), *(n.name for n in SMALL.nodes)]
    print(*(bed.child(name).pid for name in names), *bed.addresses, flush=True)
    sys.stdin.read()
"""


def test_nothing_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        text=True,
    )
    with starter:
        assert starter.stdout is not None
        words = starter.stdout.readline().split()
        children = [psutil.Process(int(word)) for word in words if word.isdigit()]
        addresses = [word for word in words if not word.isdigit()]
        assert len(children) == 6
        assert all(listens(address) for address in addresses)
        starter.send_signal(signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert alive == []
    assert not any(listens(address) for address in addresses)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - what is inside is the test
        with interrupts_deferred():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("end of the block")
        reached.append("after it")
    assert reached == ["end of the block"]
