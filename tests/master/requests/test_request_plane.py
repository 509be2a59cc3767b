"""Every message that a master's sockets let in has somebody who takes it."""

from typing import get_args

import pytest

from agent.master.master import Master
from agent.wire.config import parse
from agent.wire.master_config import MasterConfig
from agent.wire.unions import OperatorRequest, PeerReply, PublicRequest


@pytest.fixture
def master(tmp_path):
    sockets = {name: f"ipc://{tmp_path}/{name}" for name in ("public", "operator")}
    table = {"iad": {"name": "iad1"}, "sockets": sockets, "records": {"directory": ""}}
    made = Master(parse(table, MasterConfig, "test"), tmp_path, run="run")
    yield made
    made.close()


def test_each_kind_has_its_handler(master):
    assert master._public._handlers.keys() == set(get_args(PublicRequest))
    assert master._operator._handlers.keys() == set(get_args(OperatorRequest))
    assert master._peers._handlers.keys() == set(get_args(PeerReply))
