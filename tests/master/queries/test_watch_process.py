"""Watches on a real master and a real edge node: styles, restarts, clients that come back."""

import signal
import subprocess
import sys
from itertools import islice, pairwise
from pathlib import Path

import pytest

from agent.client import Client, WatchError
from agent.client import watches as rounds_module
from agent.wire.base import TIMEOUT_FACTOR
from agent.wire.messages import Window
from testkit.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("patient_clients")
EDGE = Path(sys.executable).with_name("sanderling-edge")
ROOM = "b1/f4/r413"
NODE = """
[node]
name = "n1"
areas = ["{room}"]
[master]
address = "{address}"
reconnect_first_s = 0.01
reconnect_longest_s = 0.05
[[sensor]]
driver = "replay"
interval_s = 0.05
options = {{ room = 413, start_row = 1500, preload_rows = 500 }}
"""
# An answer is given up after four times as long: by no machine that only is busy.
LATENCY_MS = 5_000.0
FAST = {"interval_s": 0.4, "latency_ms": LATENCY_MS}


@pytest.fixture
def edge_master(start_master, tmp_path, monkeypatch):
    """A master with one edge node that reads twenty times a second."""
    # After some two seconds without a word a client asks again, as it does after a restart.
    monkeypatch.setattr(rounds_module, "QUIET_GRACE_S", 2.0 - TIMEOUT_FACTOR * LATENCY_MS / 1e3)
    master = start_master()
    config = tmp_path / "node.toml"
    config.write_text(NODE.format(room=ROOM, address=master.nodes))
    node = subprocess.Popen(
        [EDGE, "--config", config, "--exit-on-stdin-eof"], stdin=subprocess.PIPE
    )
    master.wait_until(lambda status: status.nodes and status.nodes[0].state == "live")
    yield master
    node.stdin.close()
    assert node.wait(PATIENCE_S) == 0


def times(rounds):
    """A busy machine may have taken no reading in the time of a round."""
    return [
        time
        for each in rounds
        for result in each.answer.results
        for time in result.series.time_ms.numbers()
    ]


def history(client, start_ms, end_ms):
    """What the node holds of [start, end); None for nothing."""
    window = Window(start_ms=start_ms, end_ms=end_ms)
    results = client.query([ROOM], window=window, latency_ms=LATENCY_MS).results
    return results[0].series if results else None


def test_a_stream_goes_on_over_the_masters_death_without_gap_or_repeat(edge_master):
    with Client(edge_master.public) as client:
        with client.watch([ROOM], style="streaming", **FAST) as rounds:
            got = list(islice(rounds, 3))
            edge_master.stop(signal.SIGKILL)
            edge_master.start()
            got += islice(rounds, 12)
        assert [each.number for each in got] == list(range(1, 16))
        assert all(a.end_ms == b.start_ms for a, b in pairwise(got))
        stored = history(client, got[0].start_ms, got[-1].end_ms)
        assert times(got) == stored.time_ms.numbers().tolist()
        assert times(got)
        # Nothing is left of a watch that was cancelled.
        with pytest.raises(WatchError, match=r"no watch .* is open here"):
            client.watch([ROOM], style="streaming", resume=(rounds.id, rounds.after), **FAST)


def test_a_watch_left_open_goes_on_for_another_connection(edge_master):
    with Client(edge_master.public) as first, Client(edge_master.public) as second:
        with first.watch([ROOM], style="streaming", detach=True, **FAST) as rounds:
            got = list(islice(rounds, 2))
        resume = (rounds.id, rounds.after)
        assert resume[1] == 2
        with pytest.raises(WatchError, match="is open with another slo and interval_s; cancel it"):
            second.watch([ROOM], style="streaming", resume=resume, interval_s=9.0)
        with second.watch([ROOM], style="streaming", resume=resume, **FAST) as rounds:
            got += islice(rounds, 3)
            assert [each.number for each in got] == [1, 2, 3, 4, 5]
            # Queries and watches of one client do not get in each other's way.
            stored = history(second, got[0].start_ms, got[-1].end_ms)
            assert times(got) == stored.time_ms.numbers().tolist()
        assert edge_master.status().counters["open_watches"] == 0


def test_an_event_watch_sends_the_rounds_in_which_its_trigger_holds(edge_master):
    with Client(edge_master.public) as client:
        with client.watch(
            [ROOM],
            style="event",
            trigger="temperature > 0 and rate(humidity) < -12/min",
            form="aggregate",
            channels=["humidity"],
            lasting_s=4.0,
            window_s=0.5,
            interval_s=0.2,
            latency_ms=LATENCY_MS,
        ) as rounds:
            got = list(rounds)
        assert 0 < len(got) < 20
        assert all(each.fired == (ROOM,) for each in got)
        start_ms = got[0].end_ms - 200 * got[0].number
        expected = []
        for number in range(1, 21):
            end_ms = start_ms + 200 * number
            stored = history(client, end_ms - 500, end_ms)
            if stored is not None and rising(stored, "humidity") < -0.2:
                expected.append(number)
        assert [each.number for each in got] == expected
        [result] = got[0].answer.results
        assert result.series is None
        assert list(result.aggregate.channels) == ["humidity"]


def rising(series, channel):
    values, at = series.values[channel].numbers(), series.time_ms.numbers()
    return (values[-1] - values[0]) / ((at[-1] - at[0]) / 1e3) if len(at) > 1 else 0.0


def test_a_trigger_that_nobody_can_read_is_refused_in_words(edge_master):
    with Client(edge_master.public) as client:
        with pytest.raises(WatchError, match="trigger: at character 12: expected one of"):
            client.watch([ROOM], style="event", trigger="temperature", **FAST)
        with pytest.raises(ValueError, match="a trigger, or on, belongs to style event"):
            client.watch([ROOM], style="event", **FAST)
