"""`fleet lab overlay`: tiny runs of each experiment, and what is written of them."""

from __future__ import annotations

import csv
import math
import re

import pytest
from msgspec import structs

from agent.overlay.scot import BrokerId
from agent.wire.overlay import Notification, Origin
from lab.overlay import (
    alone,
    burst,
    burst_page,
    command,
    memory,
    quotes,
    scale,
    scale_page,
    sizes,
    sizes_page,
)
from lab.overlay.burst import Burst
from lab.overlay.contenders import CONTENDERS
from lab.overlay.memory import Tables
from lab.overlay.model import BOTTLENECKS, FRAME_BYTES, transmission_s
from lab.overlay.scale import Shape
from lab.overlay.scale_page import Findings
from lab.overlay.sizes import Sizes
from lab.provenance import Provenance

# Fewer clients than the experiments have.
CROWD = burst.Crowd(subscribers=60, publishers=8, want_burst=0.2)
SAMPLE = scale.Sample(advertisements=20, notifications=40)
SMALL = command.Extent(
    advertisements=(5,),
    subscriptions=(15,),
    publishers=10,
    size=0.001,
    draws=1,
    rates_per_min=(100_000,),
    bottlenecks=("links",),
    crowd=CROWD,
    few=((1, 3), (4, 1), (3, 2)),
    few_subscriptions=30,
    ten_thousand=(),
    sample=SAMPLE,
    on_paper=scale.ON_PAPER[:1],
)


def at_once(work, cases, jobs):
    return [alone.Done(work(case), 2.0, 100.0) for case in cases]


def test_the_quotes_are_real_ones_of_a_hundred_symbols():
    known = quotes.shipped()
    assert len(known) == 100
    assert {len(each) for each in known.values()} == {3}
    assert known["DELL"][0] == {
        "class": "STOCK",
        "symbol": "DELL",
        "open": 41.76,
        "high": 42.06,
        "low": 41.74,
        "close": 41.99,
        "volume": 7216400.0,
        "date": "28-Dec-04",
    }


def test_a_link_takes_as_long_as_a_message_is():
    assert transmission_s("x" * 10) == pytest.approx((11 + FRAME_BYTES) / 56_000)


def test_advertisements_cost_what_the_paper_says():
    ours = sizes.measure(Sizes("advertisements", "snr", 14, 1))
    theirs = sizes.measure(Sizes("advertisements", "tid", 14, 1))
    assert (ours.messages, theirs.messages) == (14 * 4, 14 * 341)
    assert (ours.srt_mean, theirs.srt_mean) == (pytest.approx(1.0), pytest.approx(14.0))
    assert 0 < ours.delay_mean_ms < theirs.delay_mean_ms
    assert ours.prt_mean == 0


def test_subscriptions_go_to_their_cluster():
    ours = sizes.measure(Sizes("subscriptions", "snr", 40, 1, 10))
    theirs = sizes.measure(Sizes("subscriptions", "tid", 40, 1, 10))
    assert ours.by_kind["SubscriptionChange"] == 40 * 13
    assert ours.by_kind["CibSet"] == ours.messages - 40 * 13
    assert ours.prt_mean == pytest.approx(8.0)
    assert 0 < theirs.messages < ours.messages


def burst_of(contender: str, bottleneck="links", seed=1, size=0.001) -> burst.BurstResult:
    return burst.measure(Burst(contender, 100_000, size, bottleneck, seed, CROWD))


@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
@pytest.mark.parametrize("contender", CONTENDERS)
def test_every_notification_of_a_burst_comes_once(contender, bottleneck):
    result = burst_of(contender, bottleneck)
    assert result.everything.deliveries == result.expected > 0
    assert result.bursting.deliveries == 100 * 12
    # As fast as light, and not before it was published.
    assert 0.0 < result.bursting.mean_s <= result.bursting.p99_s <= result.bursting.most_s
    assert result.curve[-1][1] <= result.everything.most_s
    assert max(delay for _, delay in result.curve) == result.everything.most_s


@pytest.mark.parametrize("contender", ["idr", "tid"])
def test_a_seed_is_a_burst(contender):
    assert burst_of(contender, seed=3) == burst_of(contender, seed=3)
    assert burst_of(contender, seed=3) != burst_of(contender, seed=4)


def test_dynamic_routing_sends_another_way_only_where_it_is_congested():
    static, dynamic = (burst_of(name, "iLinks", size=0.003) for name in ("snr", "idr"))
    assert static.expected == dynamic.expected
    assert dynamic.bursting.mean_s < static.bursting.mean_s


def test_a_delay_counts_from_when_it_was_published():
    deliveries = burst._Deliveries()
    deliveries.schedule = {"p1": (10.0, 0.5), "burst": (20.0, 0.001)}
    deliveries(("a", "b"), Notification(Origin("p1", "h", 3), 0, {}), 12.0)
    deliveries(("c",), Notification(Origin("burst", "h", 500), 0, {}), 21.0)
    assert list(deliveries.time_s) == [12.0, 12.0, 21.0]
    assert list(deliveries.delay_s) == pytest.approx([0.5, 0.5, 0.5])
    assert list(deliveries.bursting) == [0, 0, 1]


def test_a_burst_is_stable_after_its_last_thousand_with_a_long_delay():
    deliveries = burst._Deliveries()
    deliveries.schedule = {"p": (0.0, 0.0)}
    for number in range(2_500):
        deliveries.time_s.append(100.0 + number)
        deliveries.delay_s.append(2.0 if number in (0, 1_100) else 0.5)
        deliveries.bursting.append(number % 2)

    class Quiet:
        def __init__(self) -> None:
            self.messages = {"Notify": 3}

        def mean_wait_s(self, kind: str) -> float:
            return {"aLink": 1.0, "iLink": 2.0}[kind]

    case = Burst("idr", 60_000, 1.0, "links", 1)
    result = burst._result(case, Quiet(), deliveries, 2_500, 90.0)
    assert result.stable_s == 10.0 + 1_999
    assert (result.a_link_wait_s, result.i_link_wait_s) == (1.0, 2.0)
    assert result.curve == [(1_009.0, 2.0), (2_009.0, 2.0), (2_509.0, 0.5)]
    assert (result.everything.deliveries, result.bursting.deliveries) == (2_500, 1_250)
    assert result.everything.soon == pytest.approx(1 - 2 / 2_500)


def test_an_overlay_of_any_shape_is_as_expected():
    shape = Shape(6, 4, (60, 120), told=False, seed=1, sample=SAMPLE)
    first, second = scale.measure(shape)
    for found, subscriptions in ((first, 60), (second, 120)):
        assert found.delivered == found.due > 0
        assert found.subscriptions == subscriptions
        assert found.advertisement_messages == 3
        assert found.srt == pytest.approx(20 / 6)
        assert found.prt == pytest.approx(subscriptions / 4)
        assert found.start_messages == pytest.approx(found.expected.start_messages)
        assert found.notification_messages == pytest.approx(
            found.expected.notification_messages, rel=0.35
        )
    assert second.due > first.due
    assert scale.measure(shape) == [first, second]


@pytest.mark.parametrize("factors", [(6, 4), (1, 3), (5, 1)])
def test_brokers_that_were_told_cost_what_those_do_that_tell(factors):
    for told, telling in zip(
        scale.measure(Shape(*factors, (40, 80), told=True, seed=1, sample=SAMPLE)),
        scale.measure(Shape(*factors, (40, 80), told=False, seed=1, sample=SAMPLE)),
        strict=True,
    ):
        assert told.start_messages is None
        alike = structs.replace(telling, shape=told.shape, start_messages=None)
        assert told == alike


def test_ten_thousand_brokers_have_tables_of_one_size():
    shapes = scale.ten_thousand(7)
    assert {each.vertices * each.clusters for each in shapes} == {10_000}
    for each in shapes:
        assert [count / each.clusters for count in each.populations] == [50, 100]


def test_a_broker_takes_what_its_entries_do():
    # In processes of their own: this one may have memory left over.
    few, many = (
        each.result
        for each in alone.run(
            memory.measure, [Tables(20, 4, 40, 8_000), Tables(20, 4, 40, 16_000)], 2
        )
    )
    assert (few.srt, few.prt, many.srt, many.prt) == (2, 2_000, 2, 4_000)
    assert 200 * 4_000 < many.size < 10_000 * 4_000
    assert few.size < many.size


def test_a_change_in_percent():
    assert sizes_page.change(5.0, 20.0) == -75.0
    assert math.isnan(sizes_page.change(5.0, 0.0))


def test_publishers_and_subscribers_are_anywhere_but_at_the_burst():
    clients = burst._clients(burst.paper(), burst.Crowd(), burst.random.Random(1))
    *others, (name, symbol, home) = clients.publishers
    assert (name, symbol, len(others)) == ("burst", "BURST", 100)
    want = [place for _, symbols, place in clients.subscribers if symbol in symbols]
    assert len(want) == 40
    assert home not in want
    assert {place.cluster for place in want} == {0, 1, 2, 3, 4}
    assert len(clients.subscribers) == 2_000
    assert all(isinstance(place, BrokerId) for place in want)


def test_everything_is_written_down(tmp_path, capsys):
    options = structs.replace(options_for(tmp_path), quick=True)
    assert command.run(options, SMALL, at_once) == 0
    out, _ = capsys.readouterr()
    assert "OctopiA against TID routing" in out
    assert "IDR against SNR under a burst" in out
    names = [f"overlay-{name}" for name in ("tables", "burst", "scale")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{name}{end}" for name in names for end in ("", ".csv", ".md", ".svg")
    )
    for name, rows in zip(names, (4, 3, 3), strict=True):
        with (tmp_path / f"{name}.csv").open() as file:
            assert len(list(csv.DictReader(file))) == rows
        page = (tmp_path / f"{name}.md").read_text()
        assert "--quick" in page
        assert not re.search(r"\bnan\b", page)
        assert str(tmp_path) not in page


@pytest.mark.parametrize(
    ("quick", "experiment", "said"),
    [
        (False, "burst", "fleet lab overlay --experiment burst --seed 7 --size 0.5 --draws 2"),
        (False, "scale", "fleet lab overlay --experiment scale --seed 7"),
        (True, "burst", "fleet lab overlay --experiment burst --seed 7 --quick"),
    ],
)
def test_a_page_says_how_it_was_made(tmp_path, quick, experiment, said):
    options = structs.replace(options_for(tmp_path), quick=quick)
    assert command.words(options, experiment) == said


def options_for(folder) -> command.Options:
    return command.Options(folder, command.EXPERIMENTS, 0.5, 2, 7, 1, quick=False)


def test_processes_give_results_in_order():
    assert [each.result for each in alone.run(abs, [-3, 2, -1], 2)] == [3, 2, 1]


def test_a_process_says_what_it_took(capsys):
    (done,) = alone.run(abs, [-3], 1)
    assert (done.result, done.cpu_s > 0, done.most_mib > 10) == (3, True, True)
    assert "1 of 1: -3: " in capsys.readouterr().err


def test_ten_thousand_brokers_are_written_down(tmp_path):
    shapes = command.scale_cases(structs.replace(SMALL, ten_thousand=((4, 3), (2, 5))), 1)
    worlds = at_once(scale.measure, sorted(shapes, key=lambda each: each.told), 1)
    cases = command.memory_cases(command.Extent())
    tables = at_once(lambda case: memory.Resident(case, 1, 9, 2**20), cases, 1)
    found = Findings(worlds, tables)
    assert (len(found.few), len(found.ten_thousand)) == (3, 4)
    # A mebibyte for ten entries.
    assert found.entry_bytes == 2**20 / 10
    assert (found.resident_mib(1_000, 10), found.resident_mib(3, 7)) == (1.0, None)
    scale_page.write(found, Provenance("x", 0.0, "d"), tmp_path)
    page = (tmp_path / "overlay-scale.md").read_text()
    assert "## Ten thousand brokers, measured and expected\n" in page
    assert "| processor of a process, s |  | 2 to 2 |\n" in page
    assert "| its memory at most, MiB |  | 100 |\n" in page
    with (tmp_path / "overlay-scale.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["start_messages"] == "" for row in rows] == [False] * 3 + [True] * 4


def test_the_burst_pages_numbers():
    delays = burst.Delays(10, 1.0, 3.0, 4.0, 0.5)
    results = [
        burst.BurstResult(
            Burst(name, 60_000, 0.1, "links", seed),
            expected=10,
            everything=burst.Delays(deliveries, mean_s, 3.0, 4.0, 0.5),
            bursting=delays,
            stable_s=5.0,
            messages=messages,
            a_link_wait_s=0.25,
            i_link_wait_s=0.5,
            curve=[(0.0, 1.0)],
        )
        for name, seed, deliveries, mean_s, messages in (
            ("idr", 1, 10, 1.0, {"Notify": 40, "Have": 5}),
            ("idr", 2, 10, 2.0, {"Notify": 50, "Have": 5}),
            ("snr", 1, 9, 2.0, {"Notify": 40, "Have": 5}),
            ("snr", 2, 10, 2.0, {"Notify": 40, "Have": 5}),
            ("tid", 1, 10, 2.0, {"TidNotification": 100}),
            ("tid", 2, 11, 2.0, {"TidNotification": 80}),
        )
    ]
    (row,) = burst_page.summary(results).rows
    assert row == (
        "links",
        "60,000",
        "-25.0 %",
        "-21.0 %",
        "+0.0 %",
        "+0.0 %",
        "+12.5 %",
        "-50.0 %",
    )
    assert burst_page.deliveries(results).rows == [("6", "60", "2")]
    assert all(row[8:10] == ["0.250", "0.500"] for row in burst_page.table(results, "links").rows)
