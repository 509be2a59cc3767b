"""What is wrong with a fleet as a whole."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from agent.wire.operator import IadStatus, NodeStatus
from agent.wire.topics import Topic, TopicStatus
from fleet.inspect.agent_checks import agent_findings
from fleet.inspect.doctor import DoctorReport, answered, show
from fleet.inspect.findings import Finding
from fleet.inspect.fleet_checks import (
    IMAGE_TOOLS,
    KeySeen,
    between_hosts,
    iad_findings,
    key_findings,
    machine_here,
)
from fleet.inspect.seen import HostSeen, IadSeen
from fleet.inventory.model import Iad, Inventory, Master, Overlay, Place
from fleet.inventory.parties import HostOf, Party
from fleet.ssh.errors import HostError
from tests.fleet.inspect.seen_data import IAD, case

NOW = datetime(2026, 11, 21, tzinfo=UTC)
N3 = Party("node", "iad4/n3")
OTHER = Iad(name="iad5", master=Master(address="127.0.0.1", local=True))
FLEET = Inventory(name="campus", iad=(IAD, OTHER))
STATUS = IadStatus("iad4", "edfq", (), (), 0, 0, {})


def checks(findings):
    return [(f.severity, f.subject, f.check) for f in findings]


@pytest.mark.parametrize(
    ("expires", "revoked", "found"),
    [
        (NOW + timedelta(days=90), False, []),
        (NOW + timedelta(days=29), False, [("warning", "keys", "key_expires")]),
        (NOW, False, [("error", "keys", "key_expires")]),
        (None, False, [("error", "keys", "key_missing")]),
        (NOW, True, [("note", "keys", "key_revoked")]),
    ],
)
def test_keys(expires, revoked, found):
    assert checks(key_findings([KeySeen(N3, expires, revoked)], NOW)) == found


def test_missing_keys_are_one_finding():
    [found] = key_findings([KeySeen(N3, None)] * 9, NOW)
    assert found.what == f"no key: {', '.join([str(N3)] * 6)} and 3 more"


def seen(name="iad4/n3", **changes):
    host = case("healthy")[0]
    assert host.facts is not None
    facts = replace(host.facts, boot_id=name)
    return host._replace(facts=facts)._replace(**changes)


def test_clocks_that_agree_are_believed_rather_than_this_machines():
    hosts = [seen(skew_s=skew) for skew in (58.0, 60.0, 61.0)]
    (found,) = machine_here(IMAGE_TOOLS, hosts)
    assert (found.severity, found.check) == ("error", "clock_here")
    assert "60 s behind those of 3" in found.what
    assert not list(machine_here(IMAGE_TOOLS, hosts[:2]))
    assert not list(machine_here(IMAGE_TOOLS, [seen(skew_s=s) for s in (0.0, 60.0, 0.1)]))


def test_missing_tools_are_a_note():
    assert checks(machine_here(["mcopy"], [])) == [("note", "this machine", "tools")]


def test_a_silent_master_and_where_to_begin():
    silent = IadSeen("iad4", "tcp://10.0.4.1:5702", error="no reply")
    (found,) = iad_findings(FLEET, [silent], [])
    assert (found.check, found.subject) == ("master_silent", "iad4")
    assert "fleet logs tail --limit iad4/master" in found.remedy
    dead = HostSeen(HostOf(IAD, None), error=HostError("dead", "no way"))
    (found,) = iad_findings(FLEET, [silent], [dead])
    assert "begin there" in found.remedy
    (found,) = iad_findings(FLEET, [silent._replace(iad="iad5")], [])
    assert found.remedy == (
        "start it here: sanderling-master --config masters/iad5/master.toml, "
        "which `fleet deploy --limit iad5/master` writes"
    )


def test_masters_that_do_not_reach_each_other_and_nodes_that_nobody_knows():
    guest = NodeStatus("guest", "live", ("b1",), 1, 1, 0, 0, "")
    status = replace(STATUS, unreachable_iads=("iad5",), nodes=(guest, replace(guest, node="n3")))
    assert checks(iad_findings(FLEET, [IadSeen("iad4", "a", status)], [])) == [
        ("error", "iad4", "iad_unreachable"),
        ("warning", "iad4", "stranger"),
    ]


@pytest.mark.parametrize(
    ("counters", "found"),
    [
        ({"overlay_links_up": 1, "records_lost": 0, "spooled_given_up": 0}, []),
        ({}, []),
        ({"overlay_links_up": 0}, [("error", "iad4", "overlay_link")]),
        ({"records_lost": 7}, [("warning", "iad4", "records_lost")]),
        ({"spooled_given_up": 1, "notifications_dropped": 2},
         [("note", "iad4", "notifications_given_up")]),
    ],
)  # fmt: skip
def test_what_a_master_counts_and_nobody_would_look_at(counters, found):
    status = replace(STATUS, counters=counters)
    pairs = zip(FLEET.iad, "ab", strict=True)
    iads = tuple(replace(iad, overlay=Place(vertex=vertex)) for iad, vertex in pairs)
    two = replace(FLEET, overlay=Overlay(links=(("a", "b"),)), iad=iads)
    assert checks(iad_findings(two, [IadSeen("iad4", "a", status)], [])) == found


def test_an_overlay_that_is_none_is_the_inventorys_problem_alone():
    fleet = replace(FLEET, overlay=Overlay(links=(("a", "b"), ("b", "a"))))
    fleet = replace(fleet, iad=(replace(IAD, overlay=Place(vertex="x")), OTHER))
    status = replace(STATUS, counters={"overlay_links_up": 0})
    assert checks(iad_findings(fleet, [IadSeen("iad4", "a", status)], [])) == []


def test_a_topic_in_trouble_is_its_master_s():
    broken = TopicStatus(Topic("comfort", processor="p"), "backing_off", failed=3, trouble="raised")
    slow = replace(broken, state="disabled", trouble="")
    well = TopicStatus(Topic("notes"), "none")
    iad = IadSeen("iad4", "a", replace(STATUS, nodes=(), topics=(broken, well, slow)))
    master = HostSeen(HostOf(IAD, None), iad=iad)
    found = [each for each in agent_findings(master) if each.check == "topic"]
    assert [each.what for each in found] == [
        "topic comfort: raised",
        "topic comfort: its processor is disabled",
    ]
    assert found[0].remedy == "`fleet topic show comfort --iad iad4`"
    assert found[0].subject == "iad4/master"


def test_two_addresses_of_one_machine():
    two = seen(host=HostOf(IAD, None))
    assert checks(between_hosts([seen(), two], "")) == [("error", "iad4/master", "same_machine")]


def test_many_releases_at_a_time():
    old = case("another_release")[0]
    assert old.facts is not None
    old = old._replace(wanted="", facts=replace(old.facts, boot_id="other"))
    (found,) = between_hosts([seen(wanted=""), old], "")
    assert found.check == "releases"
    assert "0.1.0-3f9c2a1b on 1, 0.1.0-00aa11bb on 1" in found.what
    (found,) = between_hosts([seen(wanted="")], "0.2.0-12345678")
    assert (found.severity, found.check) == ("note", "sources")
    assert not list(between_hosts([seen(wanted="")], "0.1.0-3f9c2a1b"))
    assert not list(between_hosts([seen()], "0.2.0-12345678"))


def test_a_master_on_this_machine_was_looked_at_if_it_answers():
    here = HostSeen(HostOf(OTHER, None), iad=IadSeen("iad5", "tcp://127.0.0.1:5702", STATUS))
    assert answered(here)
    assert not answered(here._replace(iad=IadSeen("iad5", "tcp://127.0.0.1:5702")))
    elsewhere = HostSeen(HostOf(IAD, None), iad=IadSeen("iad4", "tcp://10.0.4.1:5702", STATUS))
    assert not answered(elsewhere)
    assert answered(seen())


@pytest.mark.parametrize(
    ("severities", "told"),
    [
        ([], "nothing is wrong"),
        (["note"], "1 note"),
        (["error", "note", "note"], "1 error, 2 notes"),
    ],
)
def test_what_was_found_is_counted(capsys, severities, told):
    findings = tuple(Finding(each, "iad4/n3", "clock", "what", "remedy") for each in severities)
    show(DoctorReport("campus", "", ("iad4/n3",), 1, findings))
    assert capsys.readouterr().err == f"looked at 1 of 1 hosts: {told}\n"
