"""Watches on alerts, on a real master: from a node's trigger to the readings around it."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from agent.client import Client, WatchError
from agent.client import watches as rounds_module
from agent.wire.node_messages import Subtask
from testkit.waiting import PATIENCE_S, wait_until
from tests.master.push_rig import Node

pytestmark = pytest.mark.usefixtures("patient_clients")
EDGE = Path(sys.executable).with_name("sanderling-edge")
ROOM = "b1/f4/r1"
CONFIG = f"""
[node]
name = "n1"
areas = ["{ROOM}"]
[master]
address = "{{address}}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
driver = "synthetic"
interval_s = 0.02
[[trigger]]
name = "hot"
condition = "temperature > -40"
clear = "temperature < -40"
"""
HOT = 'kind = "raised" and metric = "temperature"'
ON_HOT = {"style": "event", "on": HOT, "window_s": 60.0, "latency_ms": 500.0}


@pytest.fixture
def master(start_master, monkeypatch):
    # Beyond it a client asks again.
    monkeypatch.setattr(rounds_module, "QUIET_GRACE_S", 0.5)
    return start_master()


def subtask_for(node):
    while not isinstance(message := node.receive(), Subtask):
        pass
    return message


def numbers_of(told):
    """Which events of the node these alerts are."""
    return [alert.origin.sequence // 16 for alert in told.alerts]


def test_the_reading_that_raised_an_alert_is_in_its_round(master, tmp_path):
    config = tmp_path / "node.toml"
    config.write_text(CONFIG.format(address=master.nodes))
    with Client(master.public) as client:
        with client.watch([ROOM], interval_s=5.0, **ON_HOT) as rounds:
            node = subprocess.Popen(
                [EDGE, "--config", config, "--exit-on-stdin-eof"], stdin=subprocess.PIPE
            )
            found = next(rounds)
            assert master.status().counters["open_subscriptions"] == 1
        # Its end and this question come over two sockets.
        wait_until(lambda: master.status().counters["open_subscriptions"] == 0)
    node.stdin.close()
    assert node.wait(PATIENCE_S) == 0
    [alert] = found.alerts
    assert (found.number, found.alert_count) == (1, 1)
    assert alert.attributes["area"] == ROOM
    assert (found.start_ms, found.end_ms) == (alert.time_ms - 59_999, alert.time_ms + 1)
    [result] = found.answer.results
    assert result.series.time_ms.numbers()[-1] == alert.time_ms
    measured = result.series.measured("temperature")[-1]
    assert measured == pytest.approx(alert.attributes["value"])


def test_the_masters_death_before_the_client_has_the_round_loses_and_doubles_nothing(
    master, context
):
    with (
        Client(master.public) as client,
        client.watch([ROOM], interval_s=0.5, **ON_HOT) as rounds,
    ):
        node = Node(context, master)
        node.tell(7)
        node.answer(subtask_for(node))
        assert numbers_of(next(rounds)) == [7]
        node.tell(8)
        subtask_for(node)  # the round is under way
        node.tell(9)
        node.await_taken(9)
        master.stop(signal.SIGKILL)
        master.start()
        node.socket.close()
        node = Node(context, master)
        node.history = "another"
        node.tell(1)
        # The node says nothing: the rounds come all the same.
        got = list(islice(rounds, 2))
    assert [each.number for each in got] == [2, 3]
    assert [numbers_of(each) for each in got] == [[8], [9, 1]]
    assert [each.previous for each in got] == [1, 2]
    node.socket.close()


def test_what_is_no_filter_is_refused_in_words(master):
    with Client(master.public) as client:
        with pytest.raises(WatchError, match="on: at character 9: expected"):
            client.watch([ROOM], style="event", on="value > hot", interval_s=1.0)
        with pytest.raises(ValueError, match="which needs one of them"):
            client.watch([ROOM], style="event", on="*", trigger="co2 > 1", interval_s=1.0)
    counters = master.status().counters
    assert counters["open_watches"] == counters["open_subscriptions"] == 0
