"""The caretaker's passes, its thread, and what the task scheduler and the operator are told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.master.market.kubernetes import cluster as clusters
from agent.master.market.kubernetes.caretaker import (
    MAX_PAUSE_S,
    RESYNC_S,
    SETTLING_S,
    Look,
    Pace,
    look_after,
)
from agent.master.market.kubernetes.cluster import Refused, TryAgain, Unreachable
from agent.master.market.kubernetes.deployments import Blueprint, Observed, Operation
from agent.master.market.kubernetes.provisioner import KubernetesProvisioner
from agent.master.market.provisioning import PodTable, Provisioner
from agent.master.storage.state import State
from agent.runtime.reactor import Reactor
from agent.scheduling.events import PodsWanted
from agent.wire.config import ConfigError
from agent.wire.master_config import MasterPods
from testkit.waiting import PATIENCE_MS
from tests.examples import examples
from tests.master.market.test_kubernetes_deployments import apply
from tests.master.market.test_provisioning import Tasks

CONFIG = MasterPods(provisioner="kubernetes")
BLUEPRINT = Blueprint("iad1", CONFIG)


class FakeCluster:
    """A cluster in memory; `faults` are raised by the requests to come, None lets one pass."""

    def __init__(self) -> None:
        self.found: list[Observed] = []
        self.faults: list[Exception | None] = []
        self.bad_nodes: set[str] = set()
        self.requests = 0

    def _request(self) -> None:
        self.requests += 1
        if self.faults and (fault := self.faults.pop(0)) is not None:
            raise fault

    def deployments(self) -> list[Observed]:
        self._request()
        return list(self.found)

    def perform(self, operation: Operation) -> None:
        self._request()
        if operation.node in self.bad_nodes:
            raise Refused("422: no")
        self.found = apply(self.found, [operation])

    def all_containers_start(self) -> None:
        self.found = [d._replace(ready=d.replicas) for d in self.found]


FAULTS = st.sampled_from([TryAgain("409: changed"), TryAgain("503: busy"), Unreachable("refused")])


class Passes(RuleBasedStateMachine):
    """Whatever fails in between, one pass without faults brings the cluster to what is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster()
        self.wanted: dict[str, int] = {}

    @rule(node=st.sampled_from(["n1", "n2", "n3"]), count=st.integers(0, 4))
    def want(self, node: str, count: int) -> None:
        self.wanted[node] = count
        if not count:
            del self.wanted[node]

    @rule(faults=st.lists(st.none() | FAULTS, min_size=1, max_size=6))
    def a_pass_with_faults(self, faults: list[Exception | None]) -> None:
        self.cluster.faults = list(faults)
        look = look_after(self.wanted, self.cluster, BLUEPRINT)
        met = faults[: len(faults) - len(self.cluster.faults)]
        assert len(look.failed) == sum(fault is not None for fault in met)
        assert not (look.failed and look.settled)
        self.cluster.faults = []

    @rule()
    def somebody_deletes(self) -> None:
        self.cluster.found = self.cluster.found[1:]

    @rule()
    def a_pass(self) -> None:
        before = self.cluster.requests
        look = look_after(self.wanted, self.cluster, BLUEPRINT)
        assert (look.refused, look.failed) == ((), ())
        assert {d.node: d.replicas for d in self.cluster.found} == self.wanted
        if look.settled:
            assert self.cluster.requests == before + 1
        self.cluster.all_containers_start()
        assert look_after(self.wanted, self.cluster, BLUEPRINT) == Look(
            self.wanted, (), (), settled=True
        )

    @invariant()
    def has_no_two_of_a_node(self) -> None:
        nodes = [d.node for d in self.cluster.found]
        assert len(nodes) == len(set(nodes))


Passes.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=20, deadline=None
)
TestPasses = Passes.TestCase


def test_one_refused_node_does_not_keep_the_others_from_their_pods() -> None:
    cluster = FakeCluster()
    cluster.bad_nodes = {"n1"}
    look = look_after({"n1": 1, "n2": 1}, cluster, BLUEPRINT)
    assert look.refused == ("cannot create the Deployment of n1: 422: no",)
    assert [d.node for d in cluster.found] == ["n2"]


def test_an_unreachable_cluster_is_not_asked_for_every_node() -> None:
    cluster = FakeCluster()
    cluster.faults = [None, Unreachable("refused")]
    look = look_after({"n1": 1, "n2": 1}, cluster, BLUEPRINT)
    assert (cluster.requests, len(look.failed)) == (2, 1)


def test_pauses_double_while_looks_fail_and_only_then() -> None:
    pace = Pace()
    failed = Look(None, (), ("no answer",), settled=False)
    pauses = [pace.after(failed) for _ in range(12)]
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(pauses) == pauses[-1] == MAX_PAUSE_S
    assert pace.after(Look({}, (), (), settled=False)) == SETTLING_S
    assert pace.after(Look({}, (), (), settled=True)) == RESYNC_S
    assert pace.after(Look({}, ("422: no",), (), settled=False)) == RESYNC_S
    assert pace.after(failed) == 0.5


class Rig:
    """A provisioner on a reactor that is turned by hand."""

    def __init__(
        self, cluster: FakeCluster | None, state: State, config: MasterPods = CONFIG
    ) -> None:
        self.reactor = Reactor(time.monotonic)
        self.tasks = Tasks()
        self.lines: list[str] = []
        tasks: Any = self.tasks
        self.provisioner = KubernetesProvisioner(
            self.reactor,
            tasks,
            PodTable(state, config.most),
            config,
            "iad1",
            open_cluster=cluster and (lambda _blueprint: cluster),
            report=self.lines.append,
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Turn the reactor until it holds; each turn waits for the caretaker's thread."""
        while not condition():
            ready = self.reactor._poller.poll(PATIENCE_MS)
            assert ready, "the caretaker does nothing"
            for source, _ in ready:
                self.reactor._turns[source]()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    state = State(tmp_path / "state.sqlite", time.monotonic)
    yield state
    state.close()


def pods_of(cluster: FakeCluster) -> dict[str, int]:
    return {d.node: d.replicas for d in cluster.found}


def test_the_task_scheduler_learns_of_pods_when_they_are_ready(state: State) -> None:
    cluster = FakeCluster()
    rig = Rig(cluster, state)
    provisioner: Provisioner = rig.provisioner
    provisioner.set_pods("n1", "climate", 2)
    provisioner.set_pods("n1", "alarm", 1)
    assert (provisioner.pods("n1"), provisioner.floor("n1")) == (3, 3)
    rig.until(lambda: pods_of(cluster) == {"n1": 3})
    assert rig.tasks.told == [PodsWanted("n1", 1)]
    cluster.all_containers_start()
    rig.until(lambda: len(rig.tasks.told) > 1)
    # Fewer take effect at once: containers that are to end get no new work.
    provisioner.set_pods("n1", "climate", 1)
    assert rig.tasks.told == [PodsWanted("n1", count) for count in (1, 3, 2)]
    provisioner.set_pods("n1", "climate", 0)
    provisioner.set_pods("n1", "alarm", 0)
    rig.until(lambda: pods_of(cluster) == {})
    assert rig.tasks.told[-1] == PodsWanted("n1", 1)
    rig.provisioner.close()


def test_an_unreachable_cluster_is_told_once_and_tried_again(state: State) -> None:
    cluster = FakeCluster()
    cluster.faults = [Unreachable("connection refused")] * 2
    rig = Rig(cluster, state)
    rig.provisioner.set_pods("n1", "climate", 2)
    rig.until(lambda: pods_of(cluster) == {"n1": 2})
    rig.provisioner.close()
    assert rig.lines == ["kubernetes: cannot list Deployments: connection refused\n"]
    assert rig.provisioner.counters == {"pod_requests_refused": 0, "pod_requests_failed": 2}


def test_what_the_cluster_refuses_is_one_line_and_a_count(state: State) -> None:
    cluster = FakeCluster()
    cluster.bad_nodes = {"n2-"}
    rig = Rig(cluster, state)
    rig.provisioner.set_pods("n1", "climate", 1)
    rig.provisioner.set_pods("n2-", "climate", 1)
    rig.until(lambda: bool(rig.lines) and pods_of(cluster) == {"n1": 1})
    rig.provisioner.close()
    assert rig.lines == ["kubernetes: cannot create the Deployment of n2-: 422: no\n"]
    assert rig.provisioner.counters["pod_requests_refused"] >= 1


def test_a_fault_of_our_own_does_not_end_the_caretaker(state: State) -> None:
    cluster = FakeCluster()
    cluster.faults = [RuntimeError("an answer\nthat nobody understands")]
    rig = Rig(cluster, state)
    rig.provisioner.set_pods("n1", "climate", 1)
    rig.until(lambda: pods_of(cluster) == {"n1": 1})
    rig.until(lambda: bool(rig.lines))
    rig.provisioner.close()
    assert rig.lines == ["kubernetes: RuntimeError: an answer that nobody understands\n"]


def test_a_restarted_master_keeps_what_is_wanted_and_deletes_the_rest(state: State) -> None:
    cluster = FakeCluster()
    PodTable(state, CONFIG.most).set_need("n1", "climate", 2)
    look_after({"n1": 2, "gone": 1}, cluster, BLUEPRINT)
    cluster.all_containers_start()
    rig = Rig(cluster, state)
    rig.until(lambda: bool(rig.tasks.told))
    rig.provisioner.close()
    assert pods_of(cluster) == {"n1": 2}
    assert rig.tasks.told == [PodsWanted("n1", 2)]


def test_while_a_restarted_master_cannot_ask_its_nodes_keep_their_pods(state: State) -> None:
    cluster = FakeCluster()
    PodTable(state, CONFIG.most).set_need("n1", "climate", 2)
    look_after({"n1": 2}, cluster, BLUEPRINT)
    cluster.all_containers_start()
    cluster.faults = [Unreachable("connection refused")]
    rig = Rig(cluster, state)
    rig.until(lambda: bool(rig.lines))
    assert rig.tasks.told == []
    rig.until(lambda: bool(rig.tasks.told))
    rig.provisioner.close()
    assert rig.tasks.told == [PodsWanted("n1", 2)]


class SlowCluster(FakeCluster):
    """Does not answer before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.wanted: list[int] = []

    def deployments(self) -> list[Observed]:
        self.asked.set()
        self.may_answer.wait()
        return super().deployments()

    def perform(self, operation: Operation) -> None:
        super().perform(operation)
        self.wanted.append(pods_of(self).get("n1", 0))


def test_of_changes_during_a_request_the_last_counts_and_nobody_waits(state: State) -> None:
    cluster = SlowCluster()
    rig = Rig(cluster, state)
    assert cluster.asked.wait(PATIENCE_MS / 1e3)
    for count in range(1, 9):
        rig.provisioner.set_pods("n1", "climate", count)  # returns, while the cluster is silent
    cluster.may_answer.set()
    rig.until(lambda: pods_of(cluster) == {"n1": 8})
    rig.provisioner.close()
    assert cluster.wanted == [8]


# --- over the official client ------------------------------------------------------------------


class Pool:
    """A connection pool that gives one answer, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def request(self, *_: Any, **__: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        import io

        import urllib3

        status, body = self.answer
        return urllib3.HTTPResponse(
            io.BytesIO(body), {}, status, reason="Reason", preload_content=False
        )

    def clear(self) -> None:
        pass


def new_connection_error() -> Exception:
    from urllib3.exceptions import ProtocolError

    return ProtocolError("Connection aborted.", ConnectionResetError(104, "reset"))


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((403, b'{"message": "not\\nyours"}'), Refused, "403: not yours"),
        ((404, b'{"message": "no namespace"}'), Refused, "404: no namespace"),
        ((422, b"plain text"), Refused, "422: Reason"),
        ((409, b'{"message": "conflict"}'), TryAgain, "409: conflict"),
        ((429, b"[]"), TryAgain, "429: Reason"),
        ((401, b""), TryAgain, "401: Reason"),
        ((500, b'{"message": "etcd"}'), TryAgain, "500: etcd"),
        ((503, b""), TryAgain, "503: Reason"),
        (new_connection_error(), Unreachable, "('Connection aborted.', "),
        (ConnectionRefusedError("refused"), Unreachable, "refused"),
    ],
)
def test_what_an_answer_means(answer: Any, kind: type[Exception], text: str) -> None:
    from tests.kubernetes.test_recorded import client_over

    cluster = clusters.Cluster(BLUEPRINT, client_over(Pool(answer)))
    with pytest.raises(kind) as caught:
        cluster.deployments()
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_a_kubeconfig_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    for text in (None, "", "[]", "clusters: 3", "apiVersion: v1\nkind: Config\n", "\x00"):
        path = tmp_path / "config"
        if text is not None:
            path.write_text(text)
        with pytest.raises(ConfigError, match=r"pods\.kubeconfig") as caught:
            clusters.open_client(str(path))
        assert "\n" not in str(caught.value)


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: here, cluster: {{server: "{address}"{more}}}}}]
users: [{{name: master, user: {{token: {token}}}}}]
contexts: [{{name: here, context: {{cluster: here, user: master}}}}]
current-context: here
"""


def test_a_kubeconfig_leads_to_its_server(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG.format(address="http://127.0.0.1:1", token="t", more=""))
    cluster = clusters.Cluster(BLUEPRINT, clusters.open_client(str(path)))
    with pytest.raises(Unreachable, match="Connection refused"):
        cluster.deployments()


def test_without_the_client_the_configuration_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[kubernetes\]'"):
        clusters.open_client("")
