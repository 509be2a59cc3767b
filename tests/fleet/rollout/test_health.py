"""Whether a host is well, from what its master says."""

from __future__ import annotations

import msgspec
import pytest

from agent.wire.messages import Answer, Coverage, Missing
from agent.wire.operator import IadStatus, NodeStatus
from fleet.inventory.folder import Folder
from fleet.inventory.model import Homes, Iad, Inventory, Master, Node
from fleet.inventory.parties import HostOf
from fleet.keys.store import Store
from fleet.rollout import health
from fleet.rollout.health import (
    FIRST_READING_S,
    Gate,
    Look,
    answered,
    joined,
    master_back,
    staying,
)
from fleet.ssh.masters import SilentError


def status(version: str = "1-b", **nodes: str) -> IadStatus:
    """An IAD whose nodes are in these states, with release 1-b."""
    return IadStatus(
        iad="iad4",
        policy="edfq",
        nodes=tuple(
            NodeStatus(
                node=name,
                state=state,  # type: ignore[arg-type]
                areas=("a",),
                pods=1,
                idle_pods=1,
                queued=0,
                unloaded_samples=0,
                emulates="",
                version=version,
            )
            for name, state in nodes.items()
        ),
        unreachable_iads=(),
        open_queries=0,
        open_tasks=0,
        counters={},
        version=version,
    )


def answer(**gaps: str) -> Answer:
    """An answer that misses these areas."""
    return Answer(
        id="q",
        status="partial" if gaps else "complete",
        elapsed_ms=1.0,
        slo_met=True,
        coverage=Coverage(answered=1, asked=1),
        missing=tuple(Missing(area=area, reason=reason) for area, reason in gaps.items()),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (Look(status(n1="live")), ""),
        (Look(status("", n1="live")), ""),
        (Look(None, trouble="no reply"), "its master does not answer: no reply"),
        (Look(status(n2="live")), "its master has never seen it"),
        (Look(status(n1="lost")), "its master says lost"),
        (Look(status("1-a", n1="live")), "its master still sees release 1-a"),
    ],
)
def test_a_node_has_joined(look: Look, text: str) -> None:
    assert joined(look, "n1", "1-b") == (not text, text)


@pytest.mark.parametrize("reason", ["no_node", "node_down", "timeout", "node_error"])
def test_a_node_that_does_not_answer_is_not_well(reason: str) -> None:
    verdict = answered(answer(a=reason), ["a"], lambda area: False, 100.0)
    assert verdict == (False, f"a query of a is answered with {reason}")


def test_what_others_cover_is_not_its_affair() -> None:
    assert answered(answer(b="node_down"), ["a"], lambda area: True, 0.0) == (True, "")


def test_no_readings_are_a_fault_where_there_were_some() -> None:
    empty = answer(a="no_data")
    assert not answered(empty, ["a"], lambda area: True, 100.0).healthy
    assert not answered(empty, ["a"], lambda area: False, FIRST_READING_S / 2).healthy
    verdict = answered(empty, ["a"], lambda area: False, FIRST_READING_S)
    assert verdict == (True, "no readings yet of a: look at its sensors")


def test_silence_and_refusal_are_not_well() -> None:
    assert not answered(None, ["a"], lambda area: False, 0.0).healthy
    refused = msgspec.structs.replace(answer(), status="refused", message="not you")
    assert answered(refused, ["a"], lambda area: False, 0.0).text.endswith("refused: not you")


def test_nodes_whose_areas_change_are_not_waited_for_at_their_master() -> None:
    nodes = (
        Node(name="n1", address="10.0.0.1", areas=("a", "b")),
        Node(name="n2", address="10.0.0.2", areas=("moved",)),
    )
    iad = Iad(name="iad4", master=Master(address="10.0.0.9"), node=nodes)
    live = status(n1="live", n2="live", removed="live").nodes
    assert staying(iad, live) == {"n1"}


def test_a_master_is_back_with_its_nodes() -> None:
    before = frozenset({"n1", "n2"})
    assert master_back(Look(status(n1="live", n2="live")), "1-b", before).healthy
    assert "n2" in master_back(Look(status(n1="live", n2="lost")), "1-b", before).text
    assert "1-a" in master_back(Look(status("1-a", n1="live", n2="live")), "1-b", before).text
    assert "no reply" in master_back(Look(None, trouble="no reply"), "1-b", before).text


def test_a_node_is_well_where_its_home_is(tmp_path, monkeypatch) -> None:
    """The master of its own IAD does not see it; a node of its name elsewhere is another."""
    said = {"iad4": status(n1="lost", n2="lost"), "iad5": status(n1="live", n2="live")}

    def says(iad: Iad, *_: object) -> IadStatus:
        if iad.name not in said:
            raise SilentError("it is down")
        return said[iad.name]

    monkeypatch.setattr(health, "status_of", says)
    node = Node("n1", "10.0.0.1", ("a",), homes=Homes(("iad6", "iad5")))
    stays = Node("n2", "10.0.0.2", ("a",))
    iad4 = Iad("iad4", Master("10.0.0.9"), node=(node, stays))
    others = tuple(Iad(name, Master("10.0.0.8")) for name in ("iad5", "iad6"))
    fleet = Inventory("f", (iad4, *others))
    hosts = [HostOf(iad4, node), HostOf(iad4, stays)]
    gate = health.gates_of(fleet, hosts, Store(Folder(tmp_path)))["iad4"]
    assert isinstance(gate, Gate)
    assert gate.wait(hosts[0], "1-b", 0.0) == (True, "")
    assert gate.wait(hosts[1], "1-b", 0.0) == (False, "its master says lost")
