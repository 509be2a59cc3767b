"""Packings of topics on real masters: what is run, what counts as a miss, and a real master."""

import csv
from math import inf
from random import Random

import pytest

from _core.colocation.model_file import VERSION, ModelFile
from fleet.cli.commands import run
from fleet.placement.latency import Topic
from lab.placement.real import packed, virtual
from lab.placement.real.outcomes import (
    TAU_S,
    Outcome,
    agreement,
    messages_over,
    outcome,
    topics_over,
)
from lab.placement.real.packed_tables import (
    AGAIN,
    PREDICTED,
    REAL,
    SIMULATED,
    VIRTUAL,
    Found,
    Ran,
    World,
    rows,
    tables,
)
from lab.placement.real.packings import (
    EXACT,
    LEAST_LOAD,
    MAX_LOAD,
    MOST,
    Packing,
    case_of,
    distinct,
    packings,
    request,
    training,
)
from lab.placement.real.results import read_runs
from lab.placement.topics.packed import PLANNERS

MODEL = ModelFile(
    version=VERSION,
    discipline="shared-queue",
    quantile=0.9,
    cores=2.0,
    interference=0.1,
    service_scale=1.0,
    overhead_s=0.002,
    service_variance=0.0,
    speed_variance=0.0,
    window_s=60.0,
    serial=True,
)


def test_a_topic_misses_if_more_than_a_tenth_of_its_messages_do():
    assert not outcome(sent=30, processed=30, late=3, p90_s=0.1).missed
    assert outcome(sent=30, processed=30, late=4, p90_s=0.1).missed


def test_what_was_not_processed_in_the_end_is_over_the_limit():
    unfinished = outcome(sent=30, processed=26, late=1, p90_s=0.1)
    assert (unfinished.over, unfinished.missed) == (5, True)
    assert outcome(sent=3, processed=0, late=0, p90_s=None) == Outcome(inf, 3, 3)


def test_a_topic_to_which_nothing_was_sent_misses_nothing():
    assert not outcome(sent=0, processed=0, late=0, p90_s=None).missed


def test_a_prediction_misses_by_its_percentile():
    assert not Outcome(TAU_S).missed
    assert Outcome(TAU_S + 1e-3).missed


def test_topics_and_messages_are_counted():
    found = [Outcome(0.1, 10, 1), Outcome(0.4, 30, 15)]
    assert topics_over(found) == 1
    assert messages_over(found) == pytest.approx(0.4)
    assert messages_over([Outcome(0.1)]) == 0.0


def test_two_ways_of_running_the_same_sets_agree_or_not():
    real = [
        [Outcome(0.05, 10, 0), Outcome(0.1, 10, 5)],
        [Outcome(0.2, 10, 2)],
        [Outcome(inf, 5, 5)],
    ]
    half = [[Outcome(each.p90_s / 2) for each in some] for some in real]
    half[0][0] = Outcome(2 * TAU_S)
    same = agreement(real, real, 1)
    assert (same.r2, same.ratio, same.both) == (1.0, 1.0, 3)
    found = agreement(real, half, 1)
    assert found.low <= found.r2 <= found.high < 1.0
    assert found.ratio == 0.5
    # Nothing of the third was processed: it misses both ways, and has no ratio.
    assert (found.both, found.only_real, found.only_other) == (1, 2, 1)


def test_every_planner_places_each_topic_once_and_shared_sets_are_run_once():
    draw = Random(1)
    requests = [request(n, draw) for n in (7, 9)]
    said = []
    planned = packings(MODEL.model(), requests, said.append)
    assert len(said) == 2
    assert [(each.request, each.planner) for each in planned] == [
        (number, name) for number in (0, 1) for name in (*PLANNERS, EXACT)
    ]
    for each in planned:
        placed = sorted(topic for chosen in each.bins for topic in chosen)
        assert placed == list(range(len(requests[each.request])))
        assert max(map(len, each.bins)) <= MOST
    sets = distinct(planned)
    assert len(sets) == len(set(sets))
    assert set(sets) == {at for each in planned for at in each.sets}
    assert distinct([*planned, *planned]) == sets


def test_a_model_learns_from_sets_around_what_a_master_carries():
    sets = training(12, 2, Random(1))
    assert [len(each) for each in sets] == 3 * [3, 4, 5, 6]
    assert all(LEAST_LOAD <= sum(t.load for t in each) / 2 <= MAX_LOAD for each in sets)


def test_virtual_time_has_the_arrivals_of_the_real_master():
    case = case_of([Topic(0.02, 20.0), Topic(0.04, 5.0)])
    found = virtual.run(case, 2, 10.0, 2.0, TAU_S, packed.arrivals_of(1, "set1"))
    from fleet.placement.campaign.cases import arrivals

    sent = [topic for _, topic in arrivals(case, 10.0, packed.arrivals_of(1, "set1"))]
    assert [each.sent for each in found] == [sent.count(0), sent.count(1)]
    assert not any(each.missed for each in found)


def test_virtual_time_counts_what_an_overloaded_topic_leaves_behind():
    (found,) = virtual.run(
        case_of([Topic(0.04, 50.0)]), 2, 10.0, 0.5, TAU_S, packed.arrivals_of(1, "x")
    )
    assert found.missed
    assert found.over > found.sent / 2


def test_virtual_time_repeats_the_whole_experiment():
    draw = Random(1)

    def run_there(name, topics):
        arrivals = packed.arrivals_of(1, name)
        return virtual.run(case_of(topics), 2, 5.0, 2.0, TAU_S, arrivals)

    taught, requests = training(12, 2, draw), [request(6, draw), request(5, draw)]
    found = packed.world(run_there, taught, requests, lambda _: None, serial=True)
    assert {(each.request, each.planner) for each in found.planned} == {
        (number, name) for number in (0, 1) for name in (*PLANNERS, EXACT)
    }
    assert set(found.ran) == set(distinct(found.planned))
    assert all(len(at[1]) == len(outcomes) for at, outcomes in found.ran.items())


def made_up():
    """Two planners with a set in common, and one set that is late on the real master alone."""
    topics = [Topic(0.02, 10.0 + n, objective_s=TAU_S) for n in range(3)]
    planned = [Packing(0, "FFD", ((0,), (1, 2))), Packing(0, EXACT, ((1, 2), (0,)))]
    planned += [Packing(1, "FFD", ((0,), (1,), (2,))), Packing(1, EXACT, ((0, 1, 2),))]
    ran = {}
    for at in distinct(planned):
        some = [topics[number] for number in at[1]]
        fast = [Outcome(0.03 + 0.01 * n, 100, 0) for n in range(len(some))]
        late = [Outcome(0.3 + 0.01 * n, 100, 20) for n in range(len(some))]
        ran[at] = Ran(
            some,
            {
                REAL: late if len(some) == 3 else fast,
                VIRTUAL: fast,
                SIMULATED: fast,
                PREDICTED: [Outcome(each.p90_s) for each in fast],
            },
        )
    ran[0, (0,)].outcomes[AGAIN] = ran[0, (0,)].outcomes[REAL]
    ran[0, (1, 2)].outcomes[AGAIN] = ran[0, (1, 2)].outcomes[REAL]
    there = World(planned, {at: each.outcomes[VIRTUAL] for at, each in ran.items()})
    return Found(MODEL, 4, [topics, topics], planned, ran, 6.0, [0.0], worlds={VIRTUAL: there})


def test_each_planner_is_told_with_its_brokers_and_what_was_late():
    shown = tables(made_up(), 1)
    brokers = {row[0]: row[1:] for row in shown["brokers"].rows}
    # Of two requests, the exact planner has two brokers for one and one for the other.
    assert brokers["FFD"][:2] == ["5", "5"]
    assert brokers[EXACT][:3] == ["3", "3", "+0.00 ± 0.00"]
    assert brokers["FFD"][2].startswith("+1.00 ±")
    assert [brokers["FFD"][3], brokers[EXACT][3]] == ["5", "3"]
    topics = {
        row[0]: dict(zip(shown["topics"].headings, row, strict=True))
        for row in shown["topics"].rows
    }
    assert topics["FFD"][REAL].startswith("0.0 [0.0, ")
    assert topics[EXACT][REAL].startswith("50.0 [")
    assert topics[EXACT][VIRTUAL].startswith("0.0 [")
    worlds = {row[0]: row[1:] for row in shown["worlds"].rows}
    assert [worlds[EXACT][0], worlds[EXACT][2]] == ["3", "3"]
    assert worlds[EXACT][1].startswith("50.0 [")
    assert worlds[EXACT][3].startswith("0.0 [")
    messages = {row[0]: row[1:] for row in shown["messages"].rows}
    assert messages[EXACT][0].startswith("10.00 ±")
    assert messages[EXACT][1].startswith("0.00 ±")
    agreed = {row[0]: row[1:] for row in shown["agreement"].rows}
    assert agreed[AGAIN][0] == "2"
    assert agreed[VIRTUAL][0] == "6"
    assert agreed[VIRTUAL][3:] == ["0", "3", "0"]


def test_a_row_tells_which_planners_have_the_set():
    found = {(row[0], row[1]): row[2] for row in rows(made_up())}
    assert found[1, 1] == "FFD; exact"
    assert found[2, 6] == EXACT


def test_runs_come_back_from_the_data_of_a_campaign(tmp_path):
    data = tmp_path / "runs.csv"
    data.write_text(
        "discipline,stay,run,topics,cpu_ms,rate_per_s,p90_ms\n"
        "one queue,0,0,2,5.0,42.0,9.0\none queue,0,0,2,40.0,6.0,79.0\n"
        "one queue,0,1,2,5.0,42.0,8.0\none queue,0,1,2,40.0,6.0,75.0\n"
        "a worker a topic,0,0,1,5.0,42.0,7.0\n"
    )
    first, second = read_runs(data, "one queue")
    assert first.topics == second.topics == (Topic(0.005, 42.0), Topic(0.04, 6.0))
    assert (first.latency_s, second.latency_s) == ((0.009, 0.079), (0.008, 0.075))


@pytest.mark.long
def test_a_packing_is_run_on_a_real_master(tmp_path):
    assert run(["lab", "placement-packed", "--quick", "--directory", str(tmp_path)]) == 0
    with (tmp_path / "placement-packed.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert {name for row in found for name in row["planners"].split("; ")} == {*PLANNERS, EXACT}
    # Every message was counted, and the same ones in virtual time.
    assert all(0 <= int(row["real_over"]) <= int(row["real_messages"]) for row in found)
    assert sum(int(row["real_messages"]) for row in found) > 0
    page = (tmp_path / "placement-packed.md").read_text("utf-8")
    assert "| FFD | 2 |" in page or "| FFD | 3 |" in page
    assert f"| {AGAIN} |" in page
