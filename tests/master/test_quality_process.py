"""Quality and age of readings from nodes through a real master to its clients."""

import json
import re
import subprocess

import pytest

from agent.client import Client
from agent.wire.messages import Aggregate, ChannelAggregate, Query, Series, Slo, Window
from agent.wire.node_messages import SubtaskResult
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from testkit.agent_process import installed
from tests.master.rig import PATIENCE_MS

pytestmark = pytest.mark.usefixtures("patient_clients")
AREA = "b1/f4/r1"
SPIKE, DRIFT = 8, 32


def series(times, values, flags=(), ages=()):
    return Series(
        Int64Column.of(times),
        {"temperature": Float32Column.of(values)},
        quality={"temperature": UInt8Column.of(flags)} if flags else {},
        age_ms=UInt32Column.of(ages) if ages else None,
    )


FAULTY = series([1, 3, 5], [20, 85, 21], [0, SPIKE, DRIFT], [0, 350, 0])


def serve(node, **result):
    """Answer the next subtask."""
    outcome = result.pop("outcome", "ok")
    node.send(SubtaskResult(node.receive().id, outcome, 0.1, 0.2, **result))


def test_quality_and_age_of_two_nodes_are_one_result(master, join):
    faulty, good = join(master, "n1"), join(master, "n2")
    with Client(master.public) as client:

        def ask(form):
            client.send(Query(form, (AREA,), Window(last_s=60), Slo(99, 10_000.0), form=form))

        ask("series")
        serve(faulty, series=FAULTY)
        serve(good, series=series([2, 4], [22, 23]))
        [result] = client.receive(PATIENCE_MS).results
        assert result.series == series(
            [1, 2, 3, 4, 5], [20, 22, 85, 23, 21], [0, 0, SPIKE, 0, DRIFT], [0, 0, 350, 0, 0]
        )
        ask("aggregate")
        faulty_one = ChannelAggregate(2, 20.0, 20.5, 21.0, bad=1, suspect=1)
        some = ChannelAggregate(2, 22.0, 22.5, 23.0, bad=1, suspect=2)
        serve(faulty, aggregate=Aggregate(1, 5, {"temperature": faulty_one}))
        serve(good, aggregate=Aggregate(2, 4, {"temperature": some}))
        [result] = client.receive(PATIENCE_MS).results
        both = ChannelAggregate(4, 20.0, 21.5, 23.0, bad=2, suspect=3)
        assert result.aggregate == Aggregate(1, 5, {"temperature": both})


def test_a_trigger_passes_over_a_spike_and_fires_on_what_is_suspect(master, join):
    node = join(master)
    with (
        Client(master.public) as client,
        client.watch(
            [AREA],
            style="event",
            trigger="temperature > 80",
            interval_s=0.1,
            latency_ms=10_000.0,
        ) as rounds,
    ):
        serve(node, series=series([1, 2], [20, 85], [0, SPIKE]))
        serve(node, series=series([1, 2], [20, 85], [0, DRIFT]))
        first = next(iter(rounds))
        assert (first.number, first.fired) == (2, (AREA,))
        [result] = first.answer.results
        assert result.series.quality == {"temperature": UInt8Column.of([0, DRIFT])}


def test_a_dead_sensor_is_told_in_an_aggregate_and_never_fires(master, join):
    node = join(master)
    dead = Aggregate(1, 5, {"temperature": ChannelAggregate(0, bad=3)})
    printed = fleet_query(master, node, "--aggregate", aggregate=dead)
    assert "complete: 1 of 1 areas" in printed
    assert re.search(r" – +– +– +3$", printed, re.MULTILINE)
    printed = fleet_query(master, node, "--aggregate", "--json", aggregate=dead)
    [result] = json.loads(printed)["results"]
    told = result["aggregate"]["channels"]["temperature"]
    assert (told["count"], told["bad"], told["mean"]) == (0, 3, None)
    with (
        Client(master.public) as client,
        client.watch(
            [AREA],
            style="event",
            trigger="temperature > 80",
            form="aggregate",
            interval_s=0.1,
            latency_ms=10_000.0,
        ) as rounds,
    ):
        words = []
        rounds.on_word = words.append
        serve(node, aggregate=dead)
        hot = ChannelAggregate(1, 81.0, 81.0, 81.0, bad=2)
        serve(node, aggregate=Aggregate(1, 5, {"temperature": hot}))
        first = next(iter(rounds))
        assert (first.number, first.fired, words) == (2, (AREA,), [])


def test_a_channel_that_nobody_has_is_told_with_those_that_there_are(master, join, capfd):
    node = join(master)
    assert list(node.hello.channels) == ["temperature"]
    fleet_query(master, node, "--channel", "nope", status=2, outcome="no_data")
    line = f"fleet: no channel nope in {AREA}; there is temperature"
    assert line in capfd.readouterr().err.splitlines()
    asked = ("--channel", "nope", "--channel", "temperature")
    printed = fleet_query(master, node, *asked, series=FAULTY)
    assert "no area that answered gives nope" in printed.splitlines()


def fleet_query(master, node, *arguments, status=0, **result):
    """What `fleet query` prints when `node` answers with `result`."""
    command = [installed("fleet"), "query", "--master", master.public, "--area", AREA]
    with subprocess.Popen(
        [*command, "--slo", "p99=10s", *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        serve(node, **result)
        printed, _ = process.communicate(timeout=PATIENCE_MS / 1e3)
    assert process.returncode == status
    return printed


def test_fleet_query_tells_it_in_words_and_in_json(master, join):
    node = join(master)
    words = "temperature: 1 spike, 1 drift (the latest: drift)"
    printed = fleet_query(master, node, series=FAULTY)
    assert f"flagged {AREA} {words}" in printed.splitlines()
    assert f"°C temperature; age up to 350 ms ({AREA})" in printed.splitlines()
    [result] = json.loads(fleet_query(master, node, "--json", series=FAULTY))["results"]
    assert result["series"]["quality"] == {"temperature": [0, SPIKE, DRIFT]}
    assert result["series"]["age_ms"] == [0, 350, 0]
