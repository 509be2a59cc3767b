"""How many topics a master carries: the search, what counts as a miss, and a real master."""

import pytest

from agent.wire.topics import Topic, TopicStatus
from fleet.cli.commands import run
from fleet.placement.campaign.cases import Load
from lab.placement.real.capacity import A_WORKER, ONE_QUEUE, Probe, Setting, misses, most, table


@pytest.mark.parametrize("carried", [0, 7, 8, 23, 39, 40, 99])
def test_the_most_topics_are_found(carried):
    asked = []

    def carries(topics):
        asked.append(topics)
        return topics <= carried

    found = most(carries, 8, 40)
    assert found == (0 if carried < 8 else min(carried, 40))
    assert len(asked) <= 6


def status(latency_ms, behind=0):
    topic = Topic("comfort", processor="busy")
    return TopicStatus(
        topic, "running", received=100, processed=100 - behind, latency_ms=latency_ms
    )


def test_what_waits_is_a_miss_although_what_was_processed_was_fast():
    load = Load(cpu_ms=10.0, rate=6.0)
    assert not misses(status(999.0), load, 1_000.0)
    assert misses(status(1_001.0), load, 1_000.0)
    assert misses(status(None), load, 1_000.0)
    assert not misses(status(20.0, behind=8), load, 1_000.0)
    assert misses(status(20.0, behind=9), load, 1_000.0)


def test_each_topic_of_a_mix_takes_its_share_of_a_core():
    setting = Setting(share=0.06)
    mix = setting.mix(6)
    assert [each.cpu_ms for each in mix] == [5.0, 10.0, 20.0, 40.0, 5.0, 10.0]
    assert all(each.cores == pytest.approx(0.06) for each in mix)
    low, high = setting.range
    assert 1 <= low < high


def test_brokers_are_told_beside_those_of_a_worker_a_topic():
    probes = [
        Probe(ONE_QUEUE, 40, 2.4, 3, 2_000.0, 0.0),
        Probe(ONE_QUEUE, 32, 1.92, 0, 700.0, 0.0),
        Probe(A_WORKER, 24, 1.44, 0, 650.0, 0.0),
    ]
    assert table({ONE_QUEUE: 32, A_WORKER: 24}, probes).rows == [
        [ONE_QUEUE, "32", "1.92", "700", "75"],
        [A_WORKER, "24", "1.44", "650", "100"],
    ]
    assert table({ONE_QUEUE: 32, A_WORKER: 0}, probes).rows[1] == [A_WORKER, "0", "–", "–", "–"]


@pytest.mark.long
def test_a_real_master_is_measured_both_ways(tmp_path):
    words = ["--share", "0.4", "--within", "10000", "--seconds", "2", "--directory", str(tmp_path)]
    assert run(["lab", "placement-capacity", *words]) == 0
    rows = (tmp_path / "placement-capacity.csv").read_text("utf-8").splitlines()[1:]
    assert {row.split(",")[0] for row in rows} == {ONE_QUEUE, A_WORKER}
    assert "| a worker a topic |" in (tmp_path / "placement-capacity.md").read_text("utf-8")
