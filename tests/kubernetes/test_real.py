"""The scenarios against a real kube-apiserver; `make test-kubernetes` builds and starts one.

With SANDERLING_KUBERNETES=record the exchanges are written anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from agent.master.kubernetes.cluster import Cluster
from agent.master.kubernetes.deployments import Blueprint
from tests.kubernetes.exchange import Recorder
from tests.kubernetes.scenarios import SCENARIOS
from tests.kubernetes.server import Server, running_server

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


def test_the_server_says_what_it_is(server: Server) -> None:
    from kubernetes import client

    version: Any = client.VersionApi(server.client("admin")).get_code()
    assert version.git_version == "v1.20.2"
