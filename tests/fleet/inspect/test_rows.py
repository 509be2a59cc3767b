"""The state of a fleet as a table: from what was seen to rows, and from rows to what is read."""

import io

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from agent.wire.operator import IadStatus, NodeStatus
from fleet.common import exits
from fleet.inspect.look import skew
from fleet.inspect.overview import status_of
from fleet.inspect.rows import FleetStatus, IadRow, fleet_status, host_row, iad_row
from fleet.inspect.seen import HostSeen, IadSeen
from fleet.inspect.status_table import group, iad_line, show
from fleet.inventory.parties import HostOf
from fleet.ssh.errors import HostError
from tests.fleet.inspect.seen_data import CASES, IAD, case

TIME = "2026-11-21T13:00:00Z"
GOOD = IadRow("iad4", "tcp://10.0.4.1:5702", True, policy="edfq", live=1, nodes=1)


def row(name):
    return host_row(case(name)[0])


def shown(status: FleetStatus, *, everything: bool = False, width: int = 200) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False)
    show(console, status, everything=everything)
    return file.getvalue()


@pytest.mark.parametrize("name", CASES)
def test_health_is_the_worst_of_what_is_found(name):
    seen, expected = case(name)
    severities = {severity for severity, _, _ in expected}
    found = host_row(seen)
    live = seen.node is not None and seen.node.state == "live"
    if seen.facts is None and not live:
        assert found.health == "down"
    elif "error" in severities:
        assert found.health == "error"
    else:
        assert found.health == ("warning" if "warning" in severities else "ok")
    assert {finding.check for finding in found.findings} == {check for _, check, _ in expected}


def test_a_healthy_row_has_everything():
    found = row("healthy")
    assert found.health == "ok"
    assert (found.release, found.current) == ("0.1.0-3f9c2a1b", "0.1.0-3f9c2a1b")
    assert (found.state, found.unit, found.clock_synchronised) == (
        "live",
        "active (running)",
        True,
    )
    assert (found.faults, found.events_waiting, found.power_now) == ((), 0, ())
    assert found.disk is not None
    assert found.disk.device == "mmcblk0p2"
    assert found.disk.life_used_percent is None
    assert (found.celsius, found.uptime_s) == (48.2, 93784.0)


def test_without_ssh_the_masters_word_is_all():
    seen, _ = case("healthy")
    found = host_row(seen._replace(facts=None, skew_s=None))
    assert (found.health, found.release, found.unit) == ("ok", "0.1.0-3f9c2a1b", None)
    lost, _ = case("node_lost")
    assert host_row(lost._replace(facts=None, skew_s=None)).health == "down"
    nobody = IadSeen("iad4", "tcp://10.0.4.1:5702", error="no reply")
    assert host_row(HostSeen(seen.host, iad=nobody)).health == "unknown"


def test_a_masters_row_tells_whether_it_answers():
    host = HostOf(IAD, None)
    status = IadStatus("iad4", "edfq", (), (), 0, 0, {}, version="0.1.0-3f9c2a1b")
    answers = host_row(HostSeen(host, iad=IadSeen("iad4", "a", status)))
    assert (answers.state, answers.release, answers.health) == ("answers", "0.1.0-3f9c2a1b", "ok")
    silent = IadSeen("iad4", "a", error="no reply")
    assert host_row(HostSeen(host, iad=silent)).state == "silent"
    dead = HostSeen(host, iad=silent, error=HostError("dead", "no way"))
    assert host_row(dead).health == "down"


def test_an_iads_line_tells_its_queues():
    node = NodeStatus("n1", "live", ("b1",), 1, 0, 3, 0, "")
    nodes = (node, replace(node, node="n2", queued=4), replace(node, node="n3", queued=0))
    status = IadStatus("iad4", "edfq", nodes, (), 2, 1, {})
    found = iad_row(IadSeen("iad4", "a", status), ["n1", "n2", "n3"])
    assert (found.queued, found.longest_queue) == (7, "n2")
    assert "7 subtasks queued, most of them of n2" in iad_line(found).plain
    idle = iad_row(IadSeen("iad4", "a", replace(status, nodes=(nodes[2],))), ["n3"])
    assert (idle.queued, idle.longest_queue) == (0, "")
    assert "queued" not in iad_line(idle).plain


def test_an_iads_row_counts_the_nodes_of_the_inventory():
    node = NodeStatus("n1", "live", ("b1",), 1, 1, 0, 0, "")
    nodes = (node, replace(node, node="n2", state="lost"), replace(node, node="guest"))
    found = iad_row(
        IadSeen("iad4", "a", IadStatus("iad4", "edfq", nodes, (), 2, 1, {})), ["n1", "n2"]
    )
    assert (found.live, found.nodes, found.strangers, found.open_queries) == (1, 2, ("guest",), 2)
    assert not iad_row(IadSeen("iad4", "a", error="no reply"), ["n1"]).answers


def test_those_in_trouble_come_first_and_are_always_shown():
    rows = [replace(row("healthy"), host=f"iad4/n{i}") for i in range(300)]
    rows[250] = replace(row("dead"), host="iad4/n250")
    rows[120] = replace(row("sensor_fault"), host="iad4/n120")
    status = fleet_status("campus", TIME, [GOOD], rows)
    assert [r.host for r in status.hosts[:3]] == ["iad4/n250", "iad4/n120", "iad4/n0"]
    assert status.hosts_by_health == {"down": 1, "warning": 1, "ok": 298}
    text = shown(status)
    lines = text.splitlines()
    assert lines[1].startswith("300 hosts: 1 down, 1 warning, 298 ok; release 0.1.0-3f9c2a1b on")
    assert lines[3].startswith("iad4/n250")
    assert "and 260 more that are ok: --all" in lines
    assert len(lines) < 60
    assert "iad4/n299" in shown(status, everything=True)
    assert all(line == line.rstrip() for line in lines)


def test_the_same_fault_of_many_hosts_is_one_line_with_one_remedy():
    rows = [replace(host_row(case("never_deployed")[0]), host=f"iad4/n{i}") for i in range(3)]
    rows = [
        replace(
            each,
            findings=tuple(
                replace(f, subject=each.host, remedy=f.remedy.replace("iad4/n3", each.host))
                for f in each.findings
            ),
        )
        for each in rows
    ]
    text = shown(fleet_status("campus", TIME, [GOOD], rows))
    assert "iad4/n0, iad4/n1, iad4/n2: it has no agent" in text
    assert "`fleet deploy --limit iad4/n0,iad4/n1,iad4/n2`" in text


def test_what_a_host_wrote_cannot_move_the_cursor():
    bad = row("sensor_fault")
    evil = tuple(replace(f, what="\x1b[2J" + f.what) for f in bad.findings)
    assert "\x1b" not in shown(fleet_status("c", TIME, [GOOD], [replace(bad, findings=evil)]))


@pytest.mark.parametrize("width", [80, 200])
def test_nor_where_the_table_is_drawn_anew(width):
    evil = "1\x1b]0;title\x07\x1b[2J"
    iads = [replace(GOOD, policy=evil, strangers=(evil,))]
    status = fleet_status("c", TIME, iads, [replace(row("sensor_fault"), release=evil)])
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, markup=False)
    console.print(group(console, status, everything=True))
    assert "1?]0;title?[2J" in file.getvalue()
    assert not {*file.getvalue()} & {"\x1b", "\x07"}


def test_an_sd_card_tells_no_life_and_emmc_does():
    sd, emmc = row("healthy"), row("worn_emmc")
    text = shown(fleet_status("c", TIME, [GOOD], [sd, emmc]))
    assert "untold" in text
    assert "10 %" in text


def test_the_document_keeps_its_schema():
    """Fields may be added; programs rely on those that there are."""
    document = msgspec.to_builtins(fleet_status("campus", TIME, [GOOD], [row("healthy")]))
    assert list(document) == ["fleet", "time", "hosts_by_health", "releases", "iads", "hosts"]
    assert {"host", "health", "release", "state", "disk", "findings", "error"} <= set(
        document["hosts"][0]
    )
    assert msgspec.convert(document, FleetStatus) == fleet_status(
        "campus", TIME, [GOOD], [row("healthy")]
    )


def test_the_exit_status_says_who_could_be_asked():
    silent = replace(GOOD, answers=False, error="no reply")
    assert status_of(fleet_status("c", TIME, [GOOD], [row("healthy")])) == exits.DONE
    assert status_of(fleet_status("c", TIME, [GOOD], [row("hot")])) == exits.DONE
    assert status_of(fleet_status("c", TIME, [silent], [row("healthy")])) == exits.FAILED
    assert status_of(fleet_status("c", TIME, [GOOD], [row("dead")])) == exits.FAILED
    assert status_of(fleet_status("c", TIME, [silent], [row("dead")])) == exits.NOTHING


def test_skew_is_what_the_way_there_cannot_explain():
    facts = case("healthy")[0].facts
    assert facts is not None
    now = facts.clock.now_s
    assert skew(facts, now - 3.0, now + 1.0) == 0.0
    assert skew(facts, now - 9.0, now - 5.0) == 5.0
    assert skew(facts, now + 2.0, now + 9.0) == -2.0


@pytest.mark.parametrize("name", CASES)
def test_on_a_terminal_of_80_columns_nothing_is_cut(name):
    """As `fleet status` and `--watch` draw it."""
    found = fleet_status("c", TIME, [GOOD], [row(name), row("healthy")])
    wide = " ".join(shown(found, width=400).split()).replace("–", "").split()
    for drawn in (show, draw_anew):
        file = io.StringIO()
        console = Console(
            file=file, width=80, height=24, force_terminal=True, color_system=None, markup=False
        )
        drawn(console, found, everything=False)
        assert max(map(len, file.getvalue().splitlines())) <= 80
        assert "…" not in file.getvalue()
        # What is well is not named there, nor are the columns that say so.
        there = {word.strip(",") for word in file.getvalue().split()}
        left_out = {"unit", "clock", "sensors", "power", "waiting", "life"}
        well = {"running", "ok", "0", "untold"}
        assert {word.strip(",") for word in wide} - there <= left_out | well


def draw_anew(console, found, *, everything):
    console.print(group(console, found, everything=everything))


def test_the_room_of_a_host_is_called_as_people_call_it():
    seen, _ = case("never_deployed")
    named = host_row(seen, {"b1/f4/r413": "Meeting 4.13", "b1/f4": "Floor 4"})
    assert named.rooms == ("Meeting 4.13",)
    assert host_row(seen).rooms == ()
    wide, narrow = (
        shown(fleet_status("campus", TIME, [GOOD], [named]), width=width) for width in (200, 80)
    )
    assert "iad4/n3 Meeting 4.13 " in wide
    assert "iad4/n3 (Meeting 4.13): it has no agent" in " ".join(narrow.split())
