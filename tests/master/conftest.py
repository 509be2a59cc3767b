"""Fixtures: a master with its areas, and edge nodes that join it."""

import pytest

from tests.master.rig import FakeNode, MasterProcess


@pytest.fixture
def start_master(tmp_path):
    masters = []

    def start(iad="iad1", areas=None, **addresses):
        master = MasterProcess(tmp_path / iad, iad, areas or {"iad1": ["b1/f4"]}, **addresses)
        masters.append(master)
        return master

    yield start
    for master in masters:
        master.stop()


@pytest.fixture
def master(start_master):
    return start_master()


@pytest.fixture
def join(context):
    def join(master, name="n1", areas=("b1/f4/r1",)):
        return FakeNode(context, master.nodes, name, areas)

    return join
