"""The scenarios against what a real kube-apiserver said."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agent.master.market.kubernetes.caretaker import look_after
from agent.master.market.kubernetes.cluster import Cluster
from agent.master.market.kubernetes.deployments import Blueprint
from tests.kubernetes.exchange import Replay
from tests.kubernetes.scenarios import CONFIG, SCENARIOS


class RecordedStage:
    """A server that answers what it once answered."""

    def __init__(self, name: str) -> None:
        self.replay = Replay(name)

    def cluster(self, blueprint: Blueprint, *, user: str = "master") -> Cluster:
        return Cluster(blueprint, client_over(self.replay))

    def containers_start(self, blueprint: Blueprint, node: str, ready: int) -> None:
        """They did."""


def client_over(pool: Any) -> Any:
    from kubernetes import client

    api_client = client.ApiClient(client.Configuration(host="http://recorded"))
    api_client.rest_client.pool_manager = pool
    return api_client


@pytest.mark.parametrize("name", SCENARIOS)
def test_recorded(name: str) -> None:
    stage = RecordedStage(name)
    SCENARIOS[name](stage)
    stage.replay.done()


def test_a_replay_notices_what_was_not_recorded() -> None:
    blueprint = Blueprint("iad1", replace(CONFIG, image="another"))
    cluster = RecordedStage("life").cluster(blueprint)
    with pytest.raises(pytest.fail.Exception, match="but the client asks"):
        look_after({"n1": 1, "n2": 2}, cluster, blueprint)
