"""Every screen of `fleet` on a terminal of 80 columns: no line is longer, and no cell is cut.

What moves while a command works is in tests/fleet/test_progress.py.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from unittest import mock

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from agent.wire.about import About, ChannelInfo, Raised, ServiceInfo
from agent.wire.buckets import Buckets, ChannelBuckets
from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Missing,
    Slo,
    TaskReport,
)
from agent.wire.operator import IadStatus, NodeAlert, NodeFault, NodeStatus, ServiceReport, Step
from agent.wire.overlay import Notification, Origin
from agent.wire.packed import Float32Column, UInt32Column
from agent.wire.predicate_language import read_filter
from agent.wire.push import Gap, Lost, Notified
from agent.wire.watches import Round
from fleet.cli import image
from fleet.image import build
from fleet.image.build import Manifest
from fleet.inspect import doctor, status_table
from fleet.inspect import show as inventory_show
from fleet.inspect.discover import Heard, Row
from fleet.inspect.doctor import DoctorReport
from fleet.inspect.journal import Entry
from fleet.inspect.rows import fleet_status, host_row
from fleet.inspect.tail import show_entry
from fleet.inventory.folder import Folder
from fleet.keys import show as keys_show
from fleet.lake.sql import answers
from fleet.placement.campaign import command as campaign
from fleet.placement.campaign.scores import REPLICATE, Score
from fleet.placement.loop import screen as outlook_screen
from fleet.placement.loop.planning import Expected, Outlook
from fleet.placement.plans import Plan
from fleet.plan import screen as plan_screen
from fleet.plan.result import CapacityReport, ClassReport, HighestReport, PodsReport, PolicyReport
from fleet.query import (
    about,
    clone_screen,
    placement_screen,
    service_screen,
    status,
    subscribe,
    topic_screen,
    watch,
)
from fleet.query.placement import view_of
from fleet.release import listing
from fleet.terminal import output, screen
from fleet.terminal.buckets_screen import show_buckets
from fleet.terminal.wrapping import LEAST_ROOM
from tests.fleet.inspect.seen_data import CASES, case
from tests.fleet.query.test_clone import OF_THE_DEMO
from tests.fleet.query.test_placement import REPORT, UNIT
from tests.fleet.query.test_service import POOL, TERMS
from tests.fleet.query.test_topic import ILL, NOTES, WELL
from tests.fleet.readings import NOW_MS, series

COLUMNS = 80
# What a terminal of such a width shows is whole.
WIDE = 1_000
SLO = Slo(99.5, 1_200.0)
TIME = "2026-11-21T13:00:00Z"
ROOMS = [f"b1/f{floor}/r{floor}1{room}" for floor in (4, 5) for room in (3, 9)]
BOTH = Aggregate(
    NOW_MS,
    NOW_MS + 9_000,
    {
        "temperature": ChannelAggregate(10_800, -12.5, 21.5, 22.75, bad=12),
        "humidity": ChannelAggregate(10_800, 40.0, 45.5, 50.0, suspect=3),
    },
)
MISSING = (
    Missing("b2/f1/r101", "node_down"),
    Missing("b2/f1/r102", "no_channel", ("co2", "light", "noise", "pressure_hall")),
    Missing("b2/f1/r103", "too_large", message="the readings are about 201 MB of 134 MB"),
    Missing("b2/f1/r104", "timeout", message="nodes are still joining"),
)
TASKS = tuple(
    TaskReport(f"north-campus-{n}", 99.749687, 1_200.0, Coverage(31, 32), 1_094.0) for n in range(3)
)
ANSWER = Answer(
    "q",
    "partial",
    1_234.0,
    False,
    Coverage(4, 8),
    tuple(AreaResult(area, aggregate=BOTH) for area in ROOMS),
    MISSING,
    TASKS,
)
SERIES = replace(
    ANSWER,
    results=(
        AreaResult("b1/f4/r413", series=series([20, 85, 21], flags=[0, 8, 32], ages=[0, 350, 0])),
        AreaResult("b1/f4/r419", series=series([20, 21], sources=[5, 9]), stale_ms=95_000),
    ),
)
EMPTY = replace(
    ANSWER,
    coverage=Coverage(0, 9),
    results=(),
    missing=tuple(Missing(f"b2/f1/r10{n}", "no_data") for n in range(9)),
)


def alert(**attributes: object) -> Notified:
    found = {"area": "b1/f4/r413", "metric": "temperature", "value": 31.25, "kind": "raised"}
    found |= {"trigger": "too-warm-here", "iad": "iad4"} | attributes
    return Notified("s", 1, Notification(Origin("iad4/n1", "h", 1), NOW_MS, found))


ALERTS = (
    alert(),
    alert(area="campus-north/building-7/floor-3/room-3.104", trigger="smoke-in-the-kitchen"),
    alert(topic="comfort", kind="output", comfort=0.5, warm=True, of="the northern wing"),
    Gap("s", 17, 19),
    Gap("s", 20, 20, Lost("iad4/n1", "0123456789abcdef", 100, 120, 3)),
)
NODES = tuple(
    NodeStatus(
        f"north-campus-n{n}",
        "lost" if n == 2 else "live",
        tuple(ROOMS[:n]),
        2,
        1,
        120,
        10_000,
        "pi4",
        faults=(
            NodeFault("dht-in-the-hall", "temperature", NOW_MS, True, "the same value for 10 min"),
        ),
    )
    for n in (1, 2, 4)
)
HOSTS = fleet_status("campus", TIME, [], [host_row(case(name)[0]) for name in CASES])
NAMES = dict(
    zip(ROOMS, ("Meeting 4.13", "The kitchen of the northern wing", "Küche", "Lab"), strict=True)
)
NAMED = replace(
    SERIES,
    results=tuple(replace(each, name=NAMES[each.area]) for each in SERIES.results),
    missing=tuple(replace(each, name="Board room of the northern wing") for each in MISSING),
)
NAMED_HOSTS = fleet_status(
    "campus", TIME, [], [host_row(case(name)[0], {"b1/f4/r413": "Meeting 4.13"}) for name in CASES]
)
FINDINGS = tuple(each for host in HOSTS.hosts for each in host.findings)
HIGHEST = HighestReport(
    17.123, 0.512, {"room": 0.4, "floor of a building": 1.0, "dashboard": 0.71}, "dashboard",
    "north-campus-n1", 0.87,
)  # fmt: skip
CAPACITY = CapacityReport(
    "3 IADs, 12 nodes, 12 pods; emulated Raspberry Pi 4 with a mean of 62 ms a subtask",
    {}, {}, 1.5,
    tuple(
        ClassReport(name, 0.4, 2, 8, None, 99.0, 800.0, 486.0, 0.1) for name in HIGHEST.ratios
    ),
    2_000, (1, 2), 30.0, ("A sentence about what was assumed. " * 4,), ("A caution " * 12,),
    (PolicyReport("edfq", HIGHEST), PolicyReport("fifo", HIGHEST)),
    (
        PodsReport("edfq", True, "", 24, 12, {f"iad{n}": {"n1": n, "n2": 1} for n in range(1, 5)},
                   HIGHEST),
        PodsReport("fifo", False, "more than 256 pods a node", 0, 0, {}, HIGHEST),
    ),
    (),
)  # fmt: skip
OUTLOOK = Outlook(
    "day", ("iad1", "iad2"), 12, 123.4, 2, Plan("ffd", (), (0.5, None), (2, 1), ("x " * 60,)),
    (Expected("comfort-of-the-north", 90.0, 1_000.0, "iad1", "iad2", 840.0, None),),
    "trouble " * 14,
)  # fmt: skip
ILL_CLONE = replace(
    OF_THE_DEMO, trouble="its processor failed: ValueError at line 3 " * 2, waiting=3
)
LONG_POOL = replace(POOL, id="climate-of-the-northern-campus")
RELEASES = listing.StoredReleases(
    "0.1.0-3f9c2a1b",
    tuple(
        listing.StoredBundle(
            "0.1.0-3f9c2a1b", machine, "3.11", "/somewhere/else", 12_345_678, "ab" * 32,
            "0123456789abcdef", ("a.py",),
        )
        for machine in ("aarch64", "x86_64")
    ),
)  # fmt: skip
INVENTORY = inventory_show.Shown(
    "campus",
    (
        inventory_show.ShownIad(
            "north-campus",
            inventory_show.ShownMaster("master.north.example.org", "", True, 5700, 5701, 5702),
            tuple(ROOMS),
            (
                inventory_show.ShownHost(
                    "north-campus/n1", "n1.north.example.org", "0.1.0-3f9c2a1b", "pi4",
                    tuple(ROOMS), ("dht22 as hall", "sds011"), ("canary", "north"),
                ),
            ),
        ),
    ),
)  # fmt: skip


def _watch(to: Console) -> None:
    screen.line(to, watch.header(), "bold")
    for answer in (ANSWER, SERIES, EMPTY, replace(ANSWER, status="refused", message="no " * 40)):
        each = Round("w", 123_456, 0, NOW_MS, 1, answer, tuple(ROOMS), (ALERTS[0].notification,), 7)
        for text in watch.round_lines(each, NOW_MS / 1e3):
            screen.line(to, text)


def _subscribe(to: Console) -> None:
    for wanted in ('value > 3 and area under "b1"', 'topic = "comfort"'):
        screen.line(to, subscribe.header(read_filter(wanted)), "bold")
    for each in ALERTS:
        screen.line(to, subscribe.alert_line(each, NOW_MS / 1e3))
        screen.line(to, subscribe.alert_line(each, NOW_MS / 1e3, names=NAMES))


def _iad(to: Console) -> None:
    alerts = NodeAlert("too-warm", tuple(ROOMS), NOW_MS, False, "temperature > 30 over 5 min: 31.2")
    counters = {"queries": 123_456, "overlay_received_advertisement_part": 17, "subtasks": 9}
    nodes = tuple(replace(node, alerts=(alerts,)) for node in NODES)
    status.show_status(
        to, IadStatus("iad1", "edfq", nodes, ("iad2",), 2, 1, counters, topics=(WELL, ILL, NOTES))
    )


def _iad_with_names(to: Console) -> None:
    alerts = NodeAlert("too-warm", tuple(ROOMS), NOW_MS, False, "temperature > 30 over 5 min: 31.2")
    nodes = tuple(replace(node, alerts=(alerts,)) for node in NODES)
    status.show_status(to, IadStatus("iad1", "edfq", nodes, (), 2, 1, {}, rooms=NAMES))


def _areas(to: Console) -> None:
    raised = (Raised("too-warm-here", NOW_MS, "temperature > 30"),)
    given = tuple(map(ChannelInfo, ("temperature", "humidity", "co2"), ("celsius", "percent", "")))
    found = About(given, raised, 95_000)
    names = ("Meeting 4.13", "The kitchen of the northern wing", None, "Lab")
    results = tuple(
        AreaResult(area, about=found, name=name) for area, name in zip(ROOMS, names, strict=True)
    )
    answer = replace(ANSWER, results=results)
    about.show_areas(to, answer)
    about.show_channels(to, about.channels_in(answer))
    about.show_services(to, [ServiceInfo("climate", "co2", 99.0, 800.0, 2.5, tuple(ROOMS))])


def _buckets(to: Console) -> None:
    counts, values = UInt32Column.of([9, 0, 123_456]), Float32Column.of([-1.5, 0.0, 12_345.0])
    each = ChannelBuckets(counts, values, values, values, UInt32Column.of([1, 2, 3]))
    found = Buckets(NOW_MS, 300_000, {"temperature": each})
    result = AreaResult(ROOMS[0], buckets=found, name="The kitchen of the northern wing")
    show_buckets(to, replace(ANSWER, results=(result,)))


def _service(to: Console) -> None:
    steps = (Step("negotiate", "iad1", "countered: 12 tasks/s, p99.5 ≤ 900 ms would do", TERMS),)
    report = ServiceReport("c", True, (POOL,), steps, tuple(ROOMS), elapsed_ms=12.5)
    service_screen.show_report(to, report)


def _placement(to: Console) -> None:
    view = view_of(REPORT)
    placement_screen.show(to, REPORT, view)
    unit = view.unit("comfort")
    placement_screen.show_why(to, REPORT, view, unit, view.price.why(unit))


def _topic(to: Console) -> None:
    for each in (WELL, ILL, NOTES):
        topic_screen.show_topic(to, each)


def _sql(to: Console) -> None:
    names = ["iad", "label", "status", "elapsed_ms", "task_percentile", "queueing_budget_ms", "n"]
    row = ["iad4", "fleet query", "complete", "123.456", "99.749687", "205.125", "12"]
    answers.draw(to, names, [False, False, False, True, True, True, True], [row, row])


def _keys(_: Console) -> None:
    shown = keys_show.Shown(
        (
            keys_show.ShownKey(
                "node", "north-campus/n1", "0123456789abcdef", TIME, None, "current", "expires"
            ),
            keys_show.ShownKey("person", "ann", "", None, None, "missing"),
        ),
        (keys_show.ShownHostKey("north-campus/n12", f"SHA256:{'abcdefg' * 6}h", "adopted"),),
        (),
        True,
    )
    with mock.patch.multiple(
        keys_show, load=mock.Mock(), Store=mock.Mock(), describe=mock.Mock(return_value=shown)
    ):
        keys_show.run(Folder(Path("fleet")), as_json=False)


def _images(_: Console) -> None:
    made = Manifest(
        "pi4-bookworm-read-only.img", "pi4", "bookworm", "0.1.0-3f9c2a1b", "", 0, 3 << 30, "", (),
        {}, {},
    )  # fmt: skip
    with mock.patch.object(build, "stored", return_value=[made]):
        image.list_.callback(folder=Folder(Path("fleet")), as_json=False)


def _discover(_: Console) -> None:
    six = "fe80::dead:beef:1234:5678%wlx00c0ca98765"
    well = Heard("north-campus-n12", ("192.0.2.77", six), 22, "node")
    found = [
        Row(well, "north-campus/n12", "sensor-hall-north.example.com"),
        Row(Heard("raspberrypi-of-the-hall-in-the-north-campus-no-12", (six,), 22, "node")),
        Row(Heard("north-campus-master", ("192.0.2.1",), 22, "master")),
    ]
    import_module("fleet.cli.discover")._show(found)


def _journal(to: Console) -> None:
    text = "sds011 in the hall: no answer for a minute, trying again in 2 s; " * 3
    for entry in (
        Entry(NOW_MS * 1_000, "north-campus/n12", "sanderling-edge.service", 4, text, "", "sds011"),
        Entry(NOW_MS * 1_000, "iad4/n1", "kernel", 3, "mmc0: error -110\n  and more", "fault"),
    ):
        show_entry(to, entry, 16)


def _deploy(_: Console) -> None:
    output.say(
        "iad4/n3: rolled back: its agent did not come back within 30 s; it said: edge.toml: sensor "
        "1: unknown key pinn; did you mean pin? → correct fleet.toml, then `fleet deploy`"
    )


SCREENS: dict[str, Callable[[Console], object]] = {
    "query": lambda to: screen.show_answer(to, ANSWER, SLO, explain=True),
    "query with names of rooms": lambda to: screen.show_answer(to, NAMED, SLO),
    "query of series": lambda to: screen.show_answer(to, SERIES, SLO),
    "query of nothing": lambda to: screen.show_answer(to, EMPTY, SLO),
    "watch": _watch,
    "subscribe": _subscribe,
    "status of an IAD": _iad,
    "status of an IAD with names of rooms": _iad_with_names,
    "status": lambda to: status_table.show(to, HOSTS, everything=True),
    "status with names of rooms": lambda to: status_table.show(to, NAMED_HOSTS, everything=True),
    "status --watch": lambda to: to.print(status_table.group(to, HOSTS, everything=True)),
    "doctor": lambda _: doctor.show(
        DoctorReport(
            "campus", TIME, ("a", "b"), 1, tuple(f for h in HOSTS.hosts for f in h.findings)
        )
    ),
    "service list": lambda to: service_screen.show_list(to, (POOL, LONG_POOL)),
    "service create": _service,
    "placement": _placement,
    "placement plan": lambda to: placement_screen.show_plan(
        to, Plan("ffd", (), (None, 0.0125), (2, 1), (f"{UNIT} is infeasible alone " * 4,)), None
    ),
    "topic list": lambda to: topic_screen.show_list(to, (WELL, ILL, NOTES)),
    "topic show": _topic,
    "clone list": lambda to: clone_screen.show_list(to, (OF_THE_DEMO, ILL_CLONE)),
    "clone show": lambda to: clone_screen.show_clone(to, ILL_CLONE),
    "plan": lambda to: plan_screen.show(CAPACITY, to),
    "plan --placement": lambda to: outlook_screen.show(to, OUTLOOK, Path("plan.json")),
    "placement train": lambda _: campaign.show(
        [
            Score(name, k, 12, 0.912, 0.9, 0.93)
            for name in ("forest", REPLICATE)
            for k in (1, 2, 4, 8)
        ]
    ),
    "releases": lambda _: listing.show(RELEASES),
    "inventory show": lambda _: inventory_show.show(INVENTORY),
    "lake sql": _sql,
    "areas": _areas,
    "query --buckets": _buckets,
    "discover": _discover,
    "keys show": _keys,
    "image list": _images,
    "logs tail": _journal,
    "deploy": _deploy,
}


# Of first columns, and of tables whose rows are lines on a narrow terminal: they tell themselves.
HEADINGS = {"area", "from", "to", "policy", "iad", "node", "host"}
# Of a host that is well, and what the narrow table of `fleet status` does not name.
WELL_HOST = {"running", "ok", "0", "–", "untold"}
COLUMNS_LEFT_OUT = {"unit", "clock", "sensors", "power", "waiting", "life", "room"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a screen on a terminal, without colours."""
    terminal = Terminal()
    with monkeypatch.context() as patch:
        for variable, value in (("COLUMNS", width), ("LINES", 50), ("TERM", "xterm")):
            patch.setenv(variable, str(value))
        patch.setattr(sys, "stdout", terminal)
        patch.setattr(sys, "stderr", terminal)
        SCREENS[name](screen.console())
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_fits_80_columns_and_nothing_is_cut(name, monkeypatch):
    narrow, wide = shown(name, COLUMNS, monkeypatch), shown(name, WIDE, monkeypatch)
    assert len(wide) >= 1
    assert [line for line in narrow if cell_len(line) > COLUMNS] == []
    wanted = {word for word in words(wide) if len(word) <= LEAST_ROOM}
    if name.startswith("status"):
        wanted -= WELL_HOST | COLUMNS_LEFT_OUT
    assert wanted - words(narrow) - HEADINGS == set(), "\n".join(narrow)


def words(lines: list[str]) -> set[str]:
    return {word.strip(",;:()") for line in lines for word in line.split()}
