"""`fleet areas`, `channels` and `services`: what is printed, and what the shell completes."""

from __future__ import annotations

import json
import time
from datetime import datetime
from io import StringIO

import click
import pytest
from rich.console import Console

from agent.wire import messages as m
from agent.wire.about import About, ChannelInfo, Raised, ServiceInfo
from agent.wire.buckets import Buckets, ChannelBuckets
from agent.wire.packed import Float32Column, UInt32Column
from fleet.cli import area_option
from fleet.cli.commands import fleet
from fleet.query import about, known_areas
from fleet.terminal.buckets_screen import show_buckets
from tests.fleet.readings import NOW_MS, below, shown

TEMPERATURE = ChannelInfo("temperature", "celsius")
HUMIDITY = ChannelInfo("humidity", "percent")
VOTE = ChannelInfo("vote")


def answer(*results, services=(), missing=()):
    status = "partial" if missing else "complete"
    return m.Answer("q", status, 1.0, True, m.Coverage(1, 1), results, missing, services=services)


def told(area, *channels, raised=(), heard_ms_ago=3_400, down=False, name=None):
    found = About(channels, raised, heard_ms_ago, down)
    return m.AreaResult(area, about=found, name=name)


def printed(show, given, width=80):
    text = StringIO()
    terminal = Console(file=text, width=width, force_terminal=True, color_system=None)
    show(terminal, given)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert all(len(line) <= width for line in lines)
    return lines


def test_areas_are_a_row_each():
    assert printed(about.show_areas, answer(told("b1/f4/r413", TEMPERATURE, HUMIDITY, VOTE))) == [
        "area        channels                          heard",
        "b1/f4/r413  temperature °C, humidity %, vote  3s ago",
    ]
    clock = f"{datetime.fromtimestamp(NOW_MS / 1e3).astimezone():%d %b %H:%M}"
    assert printed(
        about.show_areas,
        answer(
            told("b1/f4/r413", TEMPERATURE, name="Meeting 4.13"),
            told("b1/f4/r415", down=True, raised=(Raised("hot", NOW_MS),)),
            told("b1/f4/r417", heard_ms_ago=None, down=True),
        ),
    ) == [
        "area        room          channels        heard        raised now",
        "b1/f4/r413  Meeting 4.13  temperature °C  3s ago",
        f"b1/f4/r415                –               down 3s ago  hot since {clock}",
        "b1/f4/r417                –               down",
    ]
    assert printed(about.show_areas, answer()) == ["no areas"]


@pytest.mark.parametrize(
    ("seconds", "ago"),
    [
        (0, "0s"),
        (99, "99s"),
        (237, "4m"),
        (5_969, "99m"),
        (5_971, "2h"),
        (9e4, "25h"),
        (1e6, "12d"),
    ],
)
def test_a_node_that_is_down_leaves_the_building_a_row_an_area(seconds, ago):
    today = int(time.time() * 1e3)
    up = told("b1/f6/r668", TEMPERATURE, HUMIDITY, raised=(Raised("humidity-up", today),))
    down = told("b1/f7/r717", TEMPERATURE, HUMIDITY, heard_ms_ago=1e3 * seconds, down=True)
    _, first, last = printed(about.show_areas, answer(up, down))
    assert first.startswith("b1/f6/r668  temperature °C, humidity %  3s ago ")
    assert "  humidity-up since " in first
    assert last == f"b1/f7/r717  temperature °C, humidity %  down {ago} ago"


def test_long_names_fit_a_terminal():
    channels = [ChannelInfo(f"channel_{n}_with_a_long_name", "micrograms") for n in range(12)]
    raised = (Raised("a-trigger-with-a-long-name", NOW_MS), Raised("hot", NOW_MS))
    area = "building-of-the-institute/fourth-floor/room-413"
    given = answer(told(area, *channels, raised=raised, name="Besprechungsraum am Innenhof"))
    text = "".join(line.replace(" ", "") for line in printed(about.show_areas, given))
    assert "channel_11_with_a_long_name" in text
    assert "Besprechungsraum" in text
    services = [ServiceInfo("a-service", "temperature", 99.9999, 500.0, 20.0, (area,) * 5)]
    assert "and 2 more" in " ".join(" ".join(printed(about.show_services, services)).split())


def test_channels_are_counted_by_unit():
    found = about.channels_in(
        answer(
            told("b1/r1", TEMPERATURE, VOTE),
            told("b1/r2", TEMPERATURE),
            told("b1/r3", ChannelInfo("temperature", "kelvin")),
        )
    )
    assert found == (
        about.Channel("temperature", "celsius", 2),
        about.Channel("temperature", "kelvin", 1),
        about.Channel("vote", "", 1),
    )
    assert printed(about.show_channels, found) == [
        "channel      unit  areas",
        "temperature  °C        2",
        "temperature  K         1",
        "vote         –         1",
    ]
    assert printed(about.show_channels, ()) == ["no channels"]


def test_services_are_a_row_each():
    services = [
        ServiceInfo("default", areas=("b1", "b2", "b3", "b4", "b5")),
        ServiceInfo("warm", "temperature", 99.5, 500.0, 20.0, ("b1/f4",)),
    ]
    assert printed(about.show_services, services) == [
        "service  gives        terms of each IAD  areas",
        "default  all          –                  b1, b2, b3 and 2 more",
        "warm     temperature  p99.5 ≤ 500 ms     b1/f4",
    ]
    assert printed(about.show_services, ()) == ["no services"]


def test_buckets_are_a_row_each_where_there_is_something():
    none = float("nan")
    channel = ChannelBuckets(
        UInt32Column.of([2, 0, 1]),
        *[Float32Column.of([21.0, none, 22.5])] * 3,
        bad=UInt32Column.of([0, 0, 3]),
    )
    result = m.AreaResult(
        "b1/r1", buckets=Buckets(NOW_MS, 600_000, {"temperature": channel}), name="Kitchen"
    )
    lines = printed(show_buckets, answer(result))
    assert lines[0] == "b1/r1 Kitchen: temperature in °C, 10m each"
    assert lines[1].split() == ["from", "n", "min", "mean", "max", "bad"]
    assert [line.split()[-5:] for line in lines[2:]] == [
        ["2", "21.0", "21.0", "21.0", "0"],
        ["1", "22.5", "22.5", "22.5", "3"],
    ]


@pytest.mark.parametrize("length_ms", [50, 1_667])
def test_buckets_that_begin_within_a_second_can_be_told_apart(length_ms):
    ones = Float32Column.of([21.0] * 3)
    channel = ChannelBuckets(UInt32Column.of([1] * 3), ones, ones, ones)
    start_ms = NOW_MS // 1_000 * 1_000 + 7
    result = m.AreaResult("b1/r1", buckets=Buckets(start_ms, length_ms, {"temperature": channel}))
    lines = printed(show_buckets, answer(result))[2:]
    begins = [start_ms + number * length_ms for number in range(3)]
    assert [line.split()[-5][-4:] for line in lines] == [f".{each % 1_000:03}" for each in begins]
    first = datetime.fromtimestamp(begins[0] / 1e3).astimezone()
    assert f"{first:%H:%M:%S}.007" in lines[0]


def test_names_of_rooms_stand_beside_their_paths_in_answers_and_rounds():
    aggregate = m.Aggregate(
        NOW_MS, NOW_MS, {"temperature": m.ChannelAggregate(1, 21.0, 21.0, 21.0)}
    )
    given = answer(m.AreaResult("b1/r1", aggregate=aggregate, name="Kitchen"))
    assert shown(given)[2].startswith("b1/r1 Kitchen ")
    assert below(given)[0].startswith("b1/r1 Kitchen ")


class FakeClient:
    """A master that answers as a test says."""

    asked = 0
    answers: m.Answer
    there = True

    def __init__(self, *given):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *given):
        pass

    def is_connected(self, timeout_s):
        assert timeout_s < 1.0
        return FakeClient.there

    def about(self, areas=("*",), **options):
        FakeClient.asked += 1
        return FakeClient.answers


@pytest.fixture
def master(monkeypatch, tmp_path):
    monkeypatch.setattr(known_areas, "Client", FakeClient)
    monkeypatch.setattr(about, "Client", FakeClient)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    FakeClient.asked, FakeClient.there = 0, True
    FakeClient.answers = answer(
        told("b1/f4/r413", TEMPERATURE, name="Meeting 4.13"), told("b1/f7/r752", HUMIDITY)
    )
    return FakeClient


def completed(begun, *options):
    with fleet.make_context("fleet", ["query", *options], resilient_parsing=True) as context:
        command = fleet.commands["query"]
        with command.make_context(
            "query", list(options), parent=context, resilient_parsing=True
        ) as inner:
            [parameter] = [p for p in command.params if p.name == "areas"]
            return [(item.value, item.help) for item in parameter.shell_complete(inner, begun)]


def test_areas_are_completed_from_the_master_that_would_be_asked(master):
    given = ("--master", "tcp://127.0.0.1:1")
    assert completed("b1/f4", *given) == [("b1/f4", None), ("b1/f4/r413", "Meeting 4.13")]
    assert [area for area, _ in completed("", *given)] == [
        "b1", "b1/f4", "b1/f4/r413", "b1/f7", "b1/f7/r752",
    ]  # fmt: skip
    assert master.asked == 1, "what was found is kept for a moment"


def test_completion_is_silent_where_there_is_no_master(master, capsys, monkeypatch):
    master.there = False
    assert completed("b1", "--master", "tcp://127.0.0.1:1") == []
    assert completed("b1", "--iad", "nowhere") == []
    monkeypatch.setenv("SANDERLING_MASTER", "nonsense")
    assert completed("b1") == []
    assert capsys.readouterr() == ("", "")


def test_what_was_found_is_forgotten_after_a_while(master):
    now = [1_000.0]

    def known():
        return known_areas.known_areas("tcp://x", None, now=lambda: now[0])

    assert known() == {"b1/f4/r413": "Meeting 4.13", "b1/f7/r752": ""}
    now[0] += known_areas.KEPT_S - 1.0
    known()
    assert master.asked == 1
    now[0] += 2.0
    master.there = False
    assert known() == {}
    master.there = True
    assert known() == {}, "nor is a master that is away asked at each key"
    now[0] += known_areas.FAILED_S + 1.0
    assert len(known()) == 2
    assert len(known_areas.known_areas("tcp://y", None)) == 2


@pytest.mark.parametrize("content", [b"", b"{", b'{"asked_s":"x","areas":{}}', b"\xff" * 100])
def test_a_file_that_is_none_is_written_anew(master, content):
    path = known_areas._file("tcp://x")
    path.parent.mkdir()
    path.write_bytes(content)
    assert len(known_areas.known_areas("tcp://x", None)) == 2
    assert known_areas._read(path).areas


def test_documents_for_programs(master, capsys):
    ask = about.Asker("tcp://x", (), "default", 5_000.0, as_json=True)
    assert ask.areas_() == ask.channels() == ask.services() == 0
    areas, *others = capsys.readouterr().out.split("\n", 1)
    assert json.loads(areas)["results"][0]["name"] == "Meeting 4.13"
    channels, services = others[0].split("\n}\n", 1)
    assert json.loads(channels + "}")["channels"][0] == {
        "name": "humidity",
        "unit": "percent",
        "areas": 1,
    }
    assert json.loads(services) == {"services": []}


def test_an_old_master_is_told_in_one_line(master, capsys):
    line = "Invalid enum value 'about' - at `$.form`"
    master.answers = m.Answer(
        "q", "refused", 0.0, False, m.Coverage(0, 0), reason="malformed", message=line
    )
    assert about.Asker("tcp://x", (), "default", 5_000.0, as_json=False).areas_() == 3
    assert "of an earlier version and cannot list what it has" in capsys.readouterr().err


def test_gaps_are_told_and_make_it_partial(master, capsys):
    master.answers = answer(told("b1/r1"), missing=(m.Missing("b9", "no_node"),))
    assert about.Asker("tcp://x", (), "default", 5_000.0, as_json=False).areas_() == 1
    assert "missing b9: no edge node covers it" in capsys.readouterr().out


def test_the_commands_are_there():
    assert {"areas", "channels", "services"} <= fleet.commands.keys()
    options = {option.name: option for option in fleet.commands["areas"].params}
    assert options["areas"]._custom_shell_complete is area_option.complete_area
    assert isinstance(fleet.commands["areas"], click.Command)
