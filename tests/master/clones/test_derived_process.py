"""A real master, a real node and its clone: both are killed; the history has each value once, and
the clone answers while the node is away."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.client import Client, Operator
from agent.wire.clones import CloneOf, CreateClone, ListClones
from agent.wire.messages import Answer, Slo, Window
from fleet.query import query as fleet_query
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess, installed
from testkit.waiting import PATIENCE_S, wait_until
from tests.master.push_rig import PushMaster
from tests.master.worker_rig import package

DEVICE, AREA = "iad1/n1", "b1/f4/r1"
CODE = """
def count(message, state):
    state["seen"] = state.get("seen", 0) + 1
    own = float("seen" in message or "own" in message)
    return [{"seen": state["seen"], "own": own, "kindly": "told"}]
"""
NODE = """
[node]
name = "n1"
areas = ["b1/f4/r1"]
[master]
address = "{address}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
driver = "synthetic"
interval_s = 0.05
[history]
commit_s = 0.2
"""


class Node(AgentProcess):
    command = (installed("sanderling-edge"),)

    def __init__(self, folder: Path, master: PushMaster) -> None:
        self.config = folder / "edge.toml"
        self.config.write_text(NODE.format(address=master.nodes))
        self.start()


class World:
    def __init__(self, folder: Path) -> None:
        public = free_address()
        pool = f'[[pool]]\niad = "iad1"\naddress = "{public}"\nareas = ["b1"]\n'
        self.master = PushMaster(folder / "iad1", "iad1", public, pool)
        self.node = Node(folder, self.master)

    def close(self) -> None:
        self.node.stop(signal.SIGKILL)
        self.master.stop(signal.SIGKILL)

    def create(self) -> str:
        """A clone of the device, as soon as its node has joined; returns its topic."""
        clone = CloneOf(DEVICE, "count", every_s=0.2)

        def asked():
            with Operator(self.master.operator) as operator:
                return operator.ask_clone(CreateClone("c", clone), PATIENCE_S * 1e3)

        report = wait_until(asked, lambda found: found.ok)
        return report.clones[0].topic

    def outputs(self) -> int:
        with Operator(self.master.operator) as operator:
            return operator.ask_clone(ListClones("l"), PATIENCE_S * 1e3).clones[0].outputs

    def query(self, *channels: str, stale_ok: bool = False) -> Answer:
        with Client(self.master.public) as client:
            return client.query(
                [AREA],
                last_s=3_600.0,
                latency_ms=2_000.0,
                timeout_ms=3_000.0,
                channels=channels,
                stale_ok=stale_ok,
            )

    def seen(self) -> list[int]:
        """What the node's history has of the clone's count."""
        answer = self.query("seen")
        if answer.status != "complete" or answer.results[0].series is None:
            return []
        return sorted(round(v) for v in answer.results[0].series.values["seen"].numbers())

    def own(self) -> set[float]:
        """Whether its own outputs came back to the clone as readings."""
        series = [each.series for each in self.query("own").results if each.series is not None]
        return {value for each in series for value in each.values["own"].numbers()}

    def stale(self) -> Answer:
        """The answer of a clone, while its node is away."""
        answer = wait_until(lambda: self.query(stale_ok=True), lambda found: found.results)
        assert answer.status == "partial"
        assert not answer.slo_met
        assert (answer.coverage.answered, answer.coverage.asked) == (0, 1)
        [gap] = answer.missing
        assert gap.reason in ("node_down", "timeout", "no_node")
        [result] = answer.results
        assert result.stale_ms is not None
        assert result.series is not None
        assert {"temperature", "seen"} <= result.series.values.keys()
        return answer


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    folder = package(tmp_path / "acme", CODE, count="acme:count")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    made = World(tmp_path)
    yield made
    made.close()


@pytest.mark.usefixtures("patient_clients")
def test_the_history_has_each_value_once_and_the_clone_answers_meanwhile(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = world.create()
    wait_until(world.seen, lambda seen: len(seen) >= 3)
    world.node.stop(signal.SIGKILL)

    first = world.stale()
    status = fleet_query.run(
        world.master.public,
        (AREA,),
        Window(last_s=600.0),
        Slo(99.0, 2_000.0),
        channels=("temperature",),
        form="aggregate",
        timeout_ms=3_000.0,
        from_clone=True,
        as_json=False,
    )
    assert status == 1
    told = capsys.readouterr().out
    assert f"{AREA}: no live answer; its clone last knew temperature" in told
    assert f"missing {AREA}: " in told

    # What the clone computes while its device is away waits for it.
    before = world.outputs()
    with Client(world.master.public) as client:
        for _ in range(5):
            client.publish(topic, {"n": 1})
    wait_until(world.outputs, lambda count: count >= before + 5)
    world.master.stop(signal.SIGKILL)
    world.master.start()
    again = world.stale()
    assert again.results[0].stale_ms is not None
    assert first.results[0].stale_ms is not None

    world.node.start()
    seen = wait_until(world.seen, lambda found: len(found) >= before + 5)
    assert seen == list(range(1, len(seen) + 1))
    world.node.stop(signal.SIGKILL)
    world.node.start()
    later = wait_until(world.seen, lambda found: len(found) >= len(seen) + 2)
    assert later == list(range(1, len(later) + 1))
    assert wait_until(world.own) == {0.0}
    answer = wait_until(
        lambda: world.query(stale_ok=True), lambda found: found.status == "complete"
    )
    assert [each.stale_ms for each in answer.results] == [None]
