"""`fleet lab overlay --experiment real`: tiny overlays of real masters, and what is written."""

from __future__ import annotations

import csv
import itertools
import math
import os
import shutil
import subprocess

import pytest
from msgspec.structs import replace

from _core.matching.predicates import intersects
from agent.overlay.scot import BrokerId
from agent.wire.predicate_language import read_filter
from agent.wire.predicates import Filter, plain
from fleet.cli.commands import run
from lab.overlay import (
    real,
    real_burst,
    real_load,
    real_network,
    real_page,
    real_rig,
    real_tables,
    topology,
)
from lab.overlay.real import Found
from lab.overlay.real_burst import Case, Load, Result, Told
from lab.overlay.real_load import Alert, Offer, Wish
from lab.overlay.real_masters import MastersError
from lab.overlay.real_subscribers import Delivery
from lab.overlay.real_tables import Row
from lab.provenance import Provenance

A0, B0, A1, B1 = BrokerId("v0", 0), BrokerId("v1", 0), BrokerId("v0", 1), BrokerId("v1", 1)


# --- who announces and wants what -----------------------------------------------------------------


def overlaps(one: Filter, other: Filter) -> bool:
    return any(intersects(plain(a), plain(b)) for a in one for b in other)


def test_what_is_announced_and_wanted_overlaps_where_a_symbol_is_the_same():
    announced = real_load.announced([Offer(A0, "DELL"), Offer(B0, "IBM"), Offer(A0, "IBM")])
    assert list(announced) == [A0, B0]
    dell, ibm = map(read_filter, announced[A0])
    wanted = read_filter(real_load.wanted(Wish("s1", B1, ("DELL", "MSFT"))))
    assert overlaps(dell, wanted)
    assert not overlaps(ibm, wanted)
    # Losses and topics are nobody's wish here: they would make every master a target.
    nothing, besides = real_load.filters("v00", [real_load.NOTHING_ELSE])
    assert not overlaps(nothing, wanted)
    assert not overlaps(besides, wanted)


def test_the_bursting_publisher_is_wanted_in_all_clusters_and_not_at_home():
    brokers = list(topology.paper().brokers())
    load = Load(100, 500, 6.0, 600, 3.0, 3.0)
    for seed in range(5):
        who = real_burst.clients(brokers, load, 0.02, seed)
        *others, (home, trigger) = who.offers
        assert trigger == real_burst.BURSTING
        assert (len(others), len(who.wishes)) == (100, 500)
        few = [each.place for each in who.wishes if each.triggers == (trigger,)]
        assert len(few) == 10
        assert home not in few
        assert {each.cluster for each in few} == set(range(5))
        assert who == real_burst.clients(brokers, load, 0.02, seed)


def test_the_schedule_has_the_burst_and_the_base_load():
    offers = [Offer(A0, "DELL"), Offer(B0, "IBM"), Offer(A1, real_burst.BURSTING)]
    load = Load(2, 10, base_per_s=4.0, in_burst=50, before_s=1.0, after_s=2.0)
    alerts = real_burst.schedule(offers, load, 25.0, 1)
    assert alerts == sorted(alerts)
    burst = [each.at_s for each in alerts if each.offer.trigger == real_burst.BURSTING]
    assert burst[0] == 1.0
    assert burst[-1] == pytest.approx(1.0 + 49 / 25)
    # Five seconds, two a second each.
    for offer in offers[:2]:
        times = [each.at_s for each in alerts if each.offer == offer]
        assert len(times) == 10
        assert max(times) < 5.0
        assert {round(b - a, 6) for a, b in itertools.pairwise(times)} == {0.5}
    assert isinstance(alerts[0], Alert)


# --- what came ------------------------------------------------------------------------------


def test_each_delivery_is_due_once():
    told = {("x", 1): Told("DELL", 100), ("x", 2): Told("IBM", 200), ("y", 1): Told("DELL", 300)}
    wishes = [Wish("s1", A0, ("DELL",)), Wish("s2", B0, ("IBM", "DELL"))]
    came = [
        Delivery(id_, iad, 16 * number, 1_000)
        for id_, iad, number in (
            ("s1", "x", 1),
            ("s1", "y", 1),
            ("s2", "x", 1),
            ("s2", "x", 2),
            ("s2", "y", 1),
        )
    ]
    assert real_burst.check(came, told, wishes) == (0, 0, 0)
    assert real_burst.check(came[1:], told, wishes) == (1, 0, 0)
    assert real_burst.check([*came, came[0], came[0]], told, wishes) == (0, 2, 0)
    wrong = Delivery("s1", "x", 32, 1_000)
    assert real_burst.check([*came, wrong], told, wishes) == (0, 0, 1)
    assert real_burst.check([*came[1:], wrong], told, wishes) == (1, 0, 1)
    # Of a run before: of nobody's wish in this one.
    assert real_burst.check([*came, Delivery("s1", "x", 48, 1)], told, wishes) == (0, 0, 1)


def test_delays_are_from_publishing_to_arrival():
    told = {("x", 1): Told("DELL", 10**9), ("x", 2): Told(real_burst.BURSTING, 2 * 10**9)}
    came = [
        Delivery("s2", "x", 32, 5 * 10**9),
        Delivery("s1", "x", 16, 3 * 10**9),
        Delivery("s1", "x", 32, 4 * 10**9),
        Delivery("s3", "x", 32, 6 * 10**9),
    ]
    delays, bursting, curve = real_burst.delays(came, told, 2 * 10**9, sequence=2)
    assert delays == [2.0, 2.0, 3.0, 4.0]
    assert bursting == [2.0, 3.0, 4.0]
    assert curve == [(2.0, 2.0), (4.0, 4.0)]


# --- links ------------------------------------------------------------------------------


def test_each_short_link_is_a_class_of_its_own():
    shape = "htb rate 8000bit burst 3000 cburst 3000 quantum 1514"
    by_address = "filter add dev e0 parent 1: protocol ip prio 1 u32 match ip dst"
    assert real_network.shaping(["10.213.1.1", "10.213.2.1"], 1_000.0) == [
        "qdisc add dev e0 root handle 1: htb default 1",
        "class add dev e0 parent 1: classid 1:1 htb rate 10gbit quantum 60000",
        f"class add dev e0 parent 1: classid 1:10 {shape}",
        f"{by_address} 10.213.1.1/32 flowid 1:10",
        f"class add dev e0 parent 1: classid 1:11 {shape}",
        f"{by_address} 10.213.2.1/32 flowid 1:11",
    ]


def test_without_root_links_are_as_they_are_and_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    monkeypatch.setattr(real_network, "TOOLS", ())
    rig = real_rig.Rig(topology.spread(2, 2), tmp_path, 8_000.0)
    assert rig.why_not_short == "network namespaces and tc need root"
    assert rig.i_link_bytes_s is None


def test_a_tool_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path: None if name == "tc" else name)
    rig = real_rig.Rig(topology.spread(2, 2), tmp_path, 8_000.0)
    assert rig.why_not_short == "no tc: apt-get install iproute2 util-linux"


def permitted() -> bool:
    """Whether namespaces and tc can be had here."""
    if os.geteuid() != 0 or any(shutil.which(tool) is None for tool in real_network.TOOLS):
        return False
    shape = "tc qdisc add dev lo root handle 1: htb default 1"
    tried = ["unshare", "--net", "--", "sh", "-c", shape]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


# --- real masters ---------------------------------------------------------------------------------


def test_tables_of_real_masters_are_those_in_virtual_time(tmp_path):
    # A socket's path would have no room below it.
    folder = tmp_path / ("deep" * 25)
    folder.mkdir()
    rig = real_rig.Rig(topology.spread(2, 2), folder, None)
    few, more = real_tables.subscriptions(rig, 6, (10, 30), 1)
    assert (few.differing, more.differing) == (0, 0)
    assert (few.entries, more.entries) == (20, 60)
    assert few.entries == few.virtual_entries
    for row in (few, more):
        assert {k: n for k, n in row.messages.items() if n} == row.virtual_messages
        assert row.messages["subscription_change"] == row.count
        assert row.links_lost == 0


@pytest.mark.long
@pytest.mark.parametrize("i_link_bytes_s", [None, 8_000.0])
def test_a_burst_at_real_masters_is_delivered_once(tmp_path, monkeypatch, i_link_bytes_s):
    if i_link_bytes_s is not None and not permitted():
        pytest.skip("needs root, network namespaces and tc")
    monkeypatch.chdir(tmp_path)
    setup = replace(real.quick(), i_link_bytes_s=i_link_bytes_s, idle_s=0.1)
    said: list[str] = []
    found = real.measure(setup, 1, said.append)
    assert real.failures(found) == []
    assert found.why_not_short == ""
    assert [each.case.routing for each in found.bursts] == ["idr", "snr"]
    for each in found.bursts:
        assert each.due == len(each.delays_s) > 200
        assert each.messages["notify"] > 0
        assert each.links_lost == 0
    assert len(said) == 5
    assert not list((tmp_path / "var").iterdir())


# --- what is written ------------------------------------------------------------------------------


def row(experiment, count=100, differing=0) -> Row:
    return Row(
        experiment=experiment,
        count=count,
        brokers=4,
        entries=200,
        virtual_entries=200,
        tid_entries=400,
        differing=differing,
        messages={"subscription_change": 300, "cib_set": 5, "notify": 0},
        virtual_messages={"subscription_change": 300, "cib_set": 5},
        tid_messages=100,
        links_lost=0,
    )


def result(routing, delay_s, missing=0) -> Result:
    return Result(
        case=Case(routing, 60.0, 0),
        due=4,
        missing=missing,
        repeated=0,
        unwanted=0,
        delays_s=[delay_s] * 4,
        burst_delays_s=[2 * delay_s],
        curve=[(1.0, delay_s), (2.0, delay_s)],
        messages={"notify": 10, "have": 9},
        virtual_s=delay_s / 2,
        late_s=0.01,
        cpu_s=1.0,
        seconds=2.0,
        links_lost=0,
    )


def found_of(*bursts: Result, rows=None, why="") -> Found:
    rows = rows or [row("advertisements"), row("subscriptions")]
    return Found(real.quick(), rows, list(bursts), 19e6, 0.25, why)


def test_what_is_found_is_written_down(tmp_path):
    found = found_of(result("idr", 1.0), result("snr", 4.0))
    made = real_page.write(found, Provenance("fleet lab overlay", 0.5, "2026-11-22"), tmp_path)
    assert [path.name for path in made] == [f"overlay-real.{end}" for end in ("csv", "svg", "md")]
    page = made[2].read_text("utf-8")
    assert "| 60 | -75.0 % | -75.0 % | -21.0 % | -75.0 % | -75.0 % | +0.0 % | +0.3 % |" in page
    assert "| 100 advertisements | SRT | 50.00 | 50.00 | 0 of 4 | 100.00 | -50.0 % |" in page
    assert "| 2 | 8 | 0 | 0 | 0 | 0 |" in page
    assert "| bytes/s from a master to a secondary neighbour | 8,000 |" in page
    with made[0].open(encoding="utf-8", newline="") as file:
        lines = {tuple(each[:4]): each[4] for each in csv.reader(file)}
    assert lines["subscriptions", "100", "0", "subscription_change"] == "300"
    assert lines["burst", "snr 60/s", "0", "all_mean_s"] == "4.0000"
    assert all(not math.isnan(float(each)) for each in list(lines.values())[1:])


def test_the_page_says_that_no_link_was_short(tmp_path):
    found = found_of(result("idr", 1.0), result("snr", 1.0), why="network namespaces need root")
    page = real_page.write(found, Provenance("x", 0.5, "2026-11-22"), tmp_path)[2]
    assert "neighbour | not limited: network namespaces need root |" in page.read_text()


def test_what_is_not_as_it_has_to_be_is_told():
    fine = found_of(result("idr", 1.0), result("snr", 1.0))
    assert real.failures(fine) == []
    bad = found_of(
        result("idr", 1.0), result("snr", 1.0, missing=2), rows=[row("advertisements", differing=3)]
    )
    assert real.failures(bad) == [
        "100 advertisements: the tables of 3 of 4 masters are not those in virtual time",
        "snr at 60/s: of 4 deliveries 2 did not come, 0 came again, 0 were not wanted",
    ]


@pytest.mark.parametrize(("missing", "status"), [(0, 0), (1, 1)])
def test_the_command_ends_with_what_came_of_it(tmp_path, monkeypatch, capsys, missing, status):
    found = found_of(result("idr", 1.0, missing), result("snr", 1.0))
    monkeypatch.setattr(real, "measure", lambda *_: found)
    words = ["lab", "overlay", "--experiment", "real", "--quick", "--results", str(tmp_path)]
    assert run(words) == status
    said = capsys.readouterr()
    assert "IDR against SNR under a burst" in said.out
    assert (tmp_path / "overlay-real.md").exists()
    assert ("1 did not come" in said.err) == bool(missing)


def test_masters_that_do_not_start_end_the_command(tmp_path, monkeypatch, capsys):
    def measure(*_):
        raise MastersError("v00 ended with exit status 1")

    monkeypatch.setattr(real, "measure", measure)
    words = ["lab", "overlay", "--experiment", "real", "--quick", "--results", str(tmp_path)]
    assert run(words) == 1
    assert capsys.readouterr().err == "fleet: v00 ended with exit status 1\n"
