"""`fleet lab placement-topics`: the simulated broker, and what the experiment writes."""

import csv
from pathlib import Path

import numpy as np
import pytest

from lab.pages import MARKED, NOT_THERE
from lab.placement import command
from lab.placement.topics import accuracy, campaign
from lab.placement.topics.broker import MAX_RATE, Broker, drawn, topic_of

SMALL = campaign.Extent(
    models=accuracy.Extent(ours=5, fewest=4, paper=5, held=20, iterations=20),
    sizes=(1, 2, 3),
    topics=(6,),
    requests=1,
    exact=True,
    drifts=1,
    events=10,
)


@pytest.mark.parametrize("periodic", [True, False])
def test_messages_of_the_warm_up_do_not_count(periodic: bool) -> None:
    draw = np.random.default_rng(1)
    (latencies,) = Broker().run([topic_of(20, 10, periodic=periodic)], draw)
    expected = 10 * 96
    assert abs(len(latencies) - expected) <= (0 if periodic else 6 * expected**0.5)


@pytest.mark.parametrize("label", MAX_RATE)
def test_a_topic_at_its_r_max_is_feasible_and_beyond_it_is_not(label: int) -> None:
    draw = np.random.default_rng(2)
    most = MAX_RATE[label]
    (below,) = Broker().measured([topic_of(label, most)], draw).latency_s
    (above,) = Broker().measured([topic_of(label, round(1.15 * most))], draw).latency_s
    assert below <= 1.0 < above


def test_seven_others_take_from_a_topic_what_the_paper_says() -> None:
    """Fig. 1d: the threshold rate falls from 38 to about 15 with 7 busy topics."""
    draw = np.random.default_rng(3)
    others = [topic_of(40, 18) for _ in range(7)]
    thresholds = [
        rate
        for rate in range(8, 30)
        if Broker().measured([topic_of(20, rate), *others], draw).latency_s[0] <= 1.0
    ]
    assert 10 <= max(thresholds) <= 20


def test_one_queue_carries_what_threads_do_not() -> None:
    draw = np.random.default_rng(4)
    # One thread is too slow for the first; the other cores have nothing to do.
    crowded = [topic_of(10, 90), topic_of(10, 5)]
    own = Broker().measured(crowded, draw).latency_s
    shared = Broker(shared=True).measured(crowded, draw).latency_s
    assert own[0] > 1.0 > shared[0]


def test_rates_are_drawn_up_to_the_share() -> None:
    draw = np.random.default_rng(5)
    rates = [topic.rate for topic in (drawn(draw, periodic=True, most=0.5) for _ in range(200))]
    assert max(rates) == 39
    assert min(rates) == 1


def test_a_small_run_writes_data_picture_and_a_page_with_all_tables(tmp_path: Path) -> None:
    assert command.topics(tmp_path, 1, quick=True, extent=SMALL) == 0
    page = (tmp_path / "placement-topics.md").read_text("utf-8")
    names = [name for name, _ in MARKED.findall(page)]
    assert names == [
        "provenance",
        "goals",
        *("accuracy-periodic", "packing-periodic", "heavy-periodic"),
        *("accuracy-poisson", "packing-poisson", "heavy-poisson"),
        *("exact", "drift"),
    ]
    assert NOT_THERE not in page
    data = table(tmp_path / "placement-topics.csv")
    # Four with FFD and LFS, ours with all planners and, if even, exact; two queues.
    assert len(data) == 2 * (2 * (4 * 2 + 5 + 2) + 1)
    assert (tmp_path / "placement-topics.svg").stat().st_size > 1_000
    goals = {row["goal"]: row for row in table(tmp_path / "placement-topics" / "goals.csv")}
    assert {row[""] for row in goals.values()} <= {"met", "**missed**"}  # all were run
    for kind in ("periodic", "Poisson"):
        brokers = {
            (row["feasibility"], row["planner"]): int(row["brokers"])
            for row in data
            if (row["request"], row["arrivals"]) == ("even", kind)
        }
        ours = brokers["ours, headroom", "balanced or LFS"]
        gain = 100 * (ours / brokers["the same, loads + 10%", "FFD"] - 1)
        row = goals["even: brokers against FFD, the network + 10%"]
        assert row[kind] == f"{gain:+.1f} %".replace("-", "−")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
