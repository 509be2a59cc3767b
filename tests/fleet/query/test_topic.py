"""`fleet topic`: what it prints, and how it ends."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agent.client import NoReplyError
from agent.wire.messages import Slo
from agent.wire.placement import KnownFacts, PlacementFacts, PlacementReport, TopicFacts
from agent.wire.topics import Topic, TopicReport, TopicStatus
from fleet.cli.commands import run
from fleet.query import topic_screen
from fleet.query.topic import Asker, limit, setting
from tests.master.push_rig import PushMaster

COMFORT = Topic(
    "comfort",
    ("b1/f4", "b1/f5", "b1/f6"),
    ("temperature", "humidity"),
    5.0,
    "comfort_index",
    {"warm_above": 26.5, "named": "office", "of": ("a", "b")},
    Slo(90.0, 1_000.0),
)
WELL = TopicStatus(
    COMFORT, "ready", received=2, put_out=119, rounds=118, rounds_failed=1, waiting=1,
    processed=119, late=3, latency_ms=41.5, cpu_ms=0.75,
)  # fmt: skip
ILL = TopicStatus(COMFORT, "backing_off", failed=4, trouble="it raised ValueError: \x1b[2J no")
NOTES = TopicStatus(Topic("notes"), "none", received=4, put_out=4)
SKIPS = TopicStatus(
    Topic("own", processor="own"),
    "ready",
    processed=1,
    failed=1,
    skipped=1,
    last_failure="KeyError:\x1b 'a'",
)


def shown(print_it, what, width=80) -> list[str]:
    file = io.StringIO()
    print_it(Console(file=file, width=width, highlight=False), what)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_list_is_a_row_a_topic_and_fits_80_columns():
    _, comfort, notes = shown(topic_screen.show_list, (WELL, NOTES), width=100)
    assert comfort.split("  ") == [
        "comfort", "b1/f4, b1/f5 and 1 more every 5s", "comfort_index", "ready",
        "p90 ≤ 1000 ms", "42 ms", "119", "119",
    ]  # fmt: skip
    assert notes.split() == ["notes", "none", "–", "–", "–", "–", "4", "4"]
    assert all(len(line) <= 80 for line in shown(topic_screen.show_list, (WELL, NOTES)))
    assert shown(topic_screen.show_list, ()) == ["no topics"]


def test_one_topic_is_a_line_for_each_of_its_parts():
    assert shown(topic_screen.show_topic, WELL) == [
        "comfort: readings b1/f4, b1/f5, b1/f6 temperature, humidity every 5s",
        "  asks service default: 118 rounds, 1 without a reading",
        "  2 published messages taken in, 0 lost",
        "  processor comfort_index: ready",
        "    with named=office, of=[a, b], warm_above=26.5",
        "    119 messages processed, 1 waiting, 0 failures, 0 skipped",
        "    p90 42 ms of 1000 ms, 3 too late",
        "    CPU time of a message 750 µs",
        "  119 notifications put out",
    ]
    assert shown(topic_screen.show_topic, NOTES) == [
        "notes: readings none",
        "  4 published messages taken in, 0 lost",
        "  4 notifications put out",
    ]


def test_a_processor_that_is_well_again_shows_what_failed_last():
    lines = shown(topic_screen.show_topic, SKIPS)
    assert lines[3:5] == [
        "    1 message processed, 0 waiting, 1 failure, 1 skipped",
        "    the last failure: KeyError:? 'a'",
    ]
    # It is well: a message that it cannot take is no trouble of the topic.
    assert shown(topic_screen.show_unhealthy, (SKIPS,)) == []


def test_a_standby_and_a_take_over_are_shown():
    status = TopicStatus(
        Topic("notes", standby=True), "none", standby="iad2", taken_from="iad3", taken_ms=0
    )
    *_, standby, taken = shown(topic_screen.show_topic, status)
    assert standby == "  standby: iad2"
    assert taken.startswith("  taken over from iad3, which was dead, ")


def test_a_topic_at_the_delegate_says_so():
    status = TopicStatus(Topic("notes"), "none", delegated="iad9: no room within the limits")
    *_, line = shown(topic_screen.show_topic, status)
    assert line == "  delegated to iad9: no room within the limits"


def test_what_is_wrong_is_shown_without_moving_the_cursor():
    assert shown(topic_screen.show_unhealthy, (WELL, NOTES)) == []
    lines = shown(topic_screen.show_unhealthy, (WELL, ILL))
    assert lines[0] == "topics in trouble: 1"
    assert "backing off" in lines[2]
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", ("a", 1.0)),
        ("a=-2.5", ("a", -2.5)),
        ("a=true", ("a", True)),
        ("a=office", ("a", "office")),
        ("a=", ("a", "")),
        ("a=b=c", ("a", "b=c")),
        ('a=["b",1.5,true]', ("a", ("b", 1.5, True))),
    ],
)
def test_a_setting_is_a_number_a_boolean_or_a_text(text, value):
    assert setting(text) == value


@pytest.mark.parametrize("text", ["a", "=1", "A=1", "a b=1", "a=nan", "a=inf", "a=[b]", "a=[[1]]"])
def test_what_is_no_setting_is_refused(text):
    with pytest.raises(ValueError, match=r"write warm_above|is no name|is no number|is no list"):
        setting(text)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--area", "b1"), "say how often the areas are read: --every 5s"),
        (("--every", "5s", "--processor", "p"), "--every goes with --area"),
        (("--area", "b1", "--every", "5s"), "readings need a processor"),
        (("--slo", "p90=1s"), "--set, --limit and --slo go with --processor"),
        (("--set", "a", "--processor", "p"), "'a' is not name=value"),
        (("--set", "Warm=3", "--processor", "p"), "'Warm' is no name; write a-z, 0-9 and _"),
        (("--channels", "a,B",), "'B' is not a channel"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line(capsys, arguments, says):
    status = run(["topic", "create", "x", *arguments, "--operator", "tcp://127.0.0.1:1"])
    err = capsys.readouterr().err
    assert status == 2
    assert says in err
    assert err.count("\n") == 1


def test_show_names_the_master_that_keeps_the_topic_or_the_name_that_was_meant(capsys, monkeypatch):
    class Master:
        """It keeps `means`, and was told of `floors` by another."""

        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def ask_topic(self, _request, _timeout_ms):
            return TopicReport("show", ok=True, topics=(TopicStatus(Topic("means"), "none"),))

        def ask_placement(self, _request, _timeout_ms):
            if self.silent:
                raise NoReplyError("no reply")
            facts = PlacementFacts("iad2", 1, 1, 5.0, topics=(TopicFacts("floors"),))
            return PlacementReport("show", ok=True, iad="iad1", known=(KnownFacts(facts, 0.1),))

    monkeypatch.setattr("fleet.query.topic.Operator", Master)
    for name, silent, says in (
        ("floors", False, "topic floors is kept by iad2; ask its master (--iad iad2)"),
        ("floors", True, "no topic floors here; see fleet topic list"),
        ("mean", False, "no topic mean here; did you mean means? Or see fleet topic list"),
    ):
        Master.silent = silent
        assert run(["topic", "show", name, "--operator", "tcp://127.0.0.1:1"]) == 1
        assert capsys.readouterr().err == f"fleet: {says}\n"


def test_a_topic_of_a_master_from_its_creation_to_its_end(tmp_path, capsys):
    master = PushMaster(tmp_path, "iad1")

    def ask(*arguments, status=0):
        assert run(["topic", *arguments]) == status
        return capsys.readouterr()

    there = ("--operator", master.operator)
    try:
        assert ask("create", "notes", *there).out == "topic notes created\n"
        assert ask("create", "notes", *there).out == "topic notes created\n"
        refused = ask("create", "x", "--processor", "cuont", *there, status=3).err
        assert "no processor cuont here; there are aggregate, anomaly, comfort_index" in refused
        published = ask("publish", "notes", "vote=3", "area=b1/f4", "--master", master.public).out
        assert published == "published to topic notes\n"
        published = ask("publish", "note", "vote=3", "--master", master.public).out
        assert published.startswith("published to topic note; it is not kept here, and is dropped ")
        refused = ask("publish", "notes", "kind=3", "--master", master.public, status=3).err
        assert refused == (
            "fleet: refused: attributes: kind is set by the master; take another name\n"
        )
        assert "notes: readings none" in ask("show", "notes", *there).out
        assert "see fleet topic list" in ask("show", "nots", *there, status=1).err
        assert '"type":"topic_report"' in ask("list", "--json", *there).out
        refused = ask("remove", "nots", *there, status=3).err
        assert refused == ("fleet: refused: no topic nots is kept here; those that are: notes\n")
        # After a restart it is there.
        master.stop()
        master.start()
        assert "notes" in ask("list", *there).out
        assert ask("remove", "notes", *there).out == "topic notes removed\n"
        assert ask("list", *there).out == "no topics\n"
    finally:
        master.stop()


@pytest.mark.parametrize(
    ("command", "message", "said"),
    [
        ("create", "it moves to iad2", "topic notes created; it moves to iad2\n"),
        ("remove", "", "topic notes removed\n"),
        # It is not removed: it lives elsewhere.
        ("remove", "notes lives at iad2; …", "notes lives at iad2; …\n"),
    ],
)
def test_what_a_master_adds_is_told(monkeypatch, capsys, command, message, said):
    report = TopicReport("t", ok=True, message=message)
    monkeypatch.setattr(Asker, "_ask", lambda _self, _request: report)
    assert run(["topic", command, "notes", "--operator", "tcp://127.0.0.1:1"]) == 0
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("memory=128M", ("memory_bytes", 2.0**27)),
        ("state_bytes=2048", ("state_bytes", 2_048.0)),
        ("cpu=500ms", ("cpu_s", 0.5)),
        ("waiting=5000", ("waiting", 5_000.0)),
        ("waiting_bytes=1g", ("waiting_bytes", 2.0**30)),
    ],
)
def test_limits_are_read_with_their_units(text, found):
    assert limit(text) == found


@pytest.mark.parametrize("text", ["memory", "speed=3", "memory=much", "cpu=1M", "waiting=1.5"])
def test_what_is_no_limit_is_refused_in_one_line(text):
    with pytest.raises(ValueError, match=r"name=value with one of|is nothing for") as raised:
        limit(text)
    assert "\n" not in str(raised.value)
