"""The client's subscriptions at a real master that is killed."""

import signal

import pytest

from agent.client import Client, UnknownLoss
from testkit.waiting import PATIENCE_S
from tests.master.push_rig import Node, PushMaster

pytestmark = pytest.mark.usefixtures("patient_clients")
HOT = 'metric = "temperature" and value > 30'


@pytest.fixture
def master(tmp_path):
    made = PushMaster(tmp_path, "iad1")
    yield made
    made.stop()


def sequence(each):
    return each.notification.origin.sequence // 16  # of the node's event


def restart(master):
    master.stop(signal.SIGKILL)
    master.start()


def test_an_area_that_nobody_known_here_covers_is_doubted(master, context):
    node = Node(context, master)
    with Client(master.public) as client:
        with client.subscribe('area under "b9"') as found:
            assert "nobody known here does" in found.doubt
        with client.subscribe(f'area under "{node.hello.areas[0]}"') as found:
            assert found.doubt == ""
    # Nor as long as it may come back.
    master.stop()
    master.start()
    with Client(master.public) as client:
        with client.subscribe(f'area under "{node.hello.areas[0]}"') as found:
            assert found.doubt == ""
        with client.subscribe('area under "b9"') as found:
            assert "nobody known here does" in found.doubt


def test_a_durable_subscription_outlives_its_master(master, context):
    with Client(master.public) as client, client.subscribe(HOT, id="d", durable=True) as found:
        node = Node(context, master)
        node.tell(1)
        assert sequence(found.wait(PATIENCE_S)) == 1
        restart(master)
        node = Node(context, master)
        node.tell(2)
        second = found.wait(PATIENCE_S)
        assert (second.position, sequence(second)) == (2, 2)
        # Killed before it hears that the second one is taken: it does not come again.
        restart(master)
        Node(context, master).tell(3)
        assert [sequence(found.wait(PATIENCE_S)), found.after] == [3, 2]


def test_one_that_is_not_durable_says_that_something_may_be_missing(master, context):
    with Client(master.public) as client, client.subscribe(HOT) as found:
        Node(context, master).tell(1)
        assert sequence(found.wait(PATIENCE_S)) == 1
        restart(master)
        loss = found.wait(PATIENCE_S)
        assert isinstance(loss, UnknownLoss)
        assert (loss.after, loss.position) == (1, 0)
        Node(context, master).tell(2)
        assert [sequence(found.wait(PATIENCE_S)), found.after] == [2, 0]
    assert master.status().counters["open_subscriptions"] == 0
