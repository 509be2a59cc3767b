"""The scenarios against a real kube-apiserver; `make test-kubernetes` builds and starts one.

With SANDERLING_KUBERNETES=record the exchanges are written anew.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.master.market.kubernetes.cluster import Cluster
from agent.master.market.kubernetes.deployments import Blueprint
from agent.master.storage.state import State
from agent.scheduling.events import PodsWanted
from tests.kubernetes.exchange import Recorder
from tests.kubernetes.scenarios import CONFIG, SCENARIOS
from tests.kubernetes.server import BIN, TOKENS, Server, running_server
from tests.master.market.test_kubernetes_provisioner import KUBECONFIG, Rig

MODE = os.environ.get("SANDERLING_KUBERNETES", "")

pytestmark = pytest.mark.skipif(
    not MODE, reason="needs a kube-apiserver: make test-kubernetes builds one in minutes"
)


class RealStage:
    """A server that validates and stores; nothing runs containers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.recorder = Recorder()

    def cluster(self, blueprint: Blueprint, *, user: str = "master") -> Cluster:
        api_client = self._server.client(user)
        self.recorder.join(api_client)
        return Cluster(blueprint, api_client)

    def containers_start(self, blueprint: Blueprint, node: str, ready: int) -> None:
        from kubernetes import client

        status = {"replicas": ready, "readyReplicas": ready, "availableReplicas": ready}
        client.AppsV1Api(self._server.client("admin")).patch_namespaced_deployment_status(
            blueprint.name(node),
            blueprint.namespace,
            {"status": status},
            _content_type="application/merge-patch+json",
        )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.mark.parametrize("name", SCENARIOS)
def test_real(name: str, server: Server) -> None:
    stage = RealStage(server)
    SCENARIOS[name](stage)
    if MODE == "record":
        stage.recorder.keep(name)


def test_the_provisioner_itself(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "config"
    more = f', certificate-authority: "{server.certificate}"'
    path.write_text(KUBECONFIG.format(address=server.address, token=TOKENS["master"], more=more))
    config = replace(CONFIG, kubeconfig=str(path))
    blueprint = Blueprint("iad1", config)
    stage = RealStage(server)
    cluster = stage.cluster(blueprint)
    state = State(None, time.monotonic)
    rig = Rig(None, state, config)
    rig.provisioner.set_pods("n1", "climate", 2)
    rig.until(lambda: [d.replicas for d in cluster.deployments()] == [2])
    stage.containers_start(blueprint, "n1", 2)
    rig.until(lambda: len(rig.tasks.told) > 1)
    assert rig.tasks.told == [PodsWanted("n1", 1), PodsWanted("n1", 2)]
    rig.provisioner.set_pods("n1", "climate", 0)
    rig.until(lambda: cluster.deployments() == [])
    rig.provisioner.close()
    state.close()
    assert rig.lines == []


def test_it_is_the_server_that_the_documents_name() -> None:
    version = subprocess.run([BIN / "kube-apiserver", "--version"], capture_output=True, check=True)
    assert version.stdout == b"Kubernetes v1.20.2\n"
