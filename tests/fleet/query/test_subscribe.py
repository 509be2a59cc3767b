"""`fleet subscribe` as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import zmq

from agent.client import Client, UnknownLoss
from agent.wire.base import TRIGGER_CLEARED
from agent.wire.overlay import Notification, Origin
from agent.wire.predicate_language import read_filter
from agent.wire.push import Gap, Lost, Notified
from fleet.cli import commands
from fleet.query.subscribe import Tally, alert_line, first_alerts, header, summary_line
from fleet.testbed.ports import free_address
from fleet.testbed.processes import agent_command
from tests.master.push_rig import Node, PushMaster

HOT = 'metric = "temperature" and value > 30'


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushMaster]:
    public = free_address()
    names = '[iad.rooms]\n"b1/f4/r1" = "Küche 4.1"\n'
    pool = f'[[pool]]\niad = "iad1"\naddress = "{public}"\nareas = ["b1"]\n'
    pool += f'[[pool]]\niad = "iad2"\naddress = "{free_address()}"\nareas = ["b2"]\n'
    master = PushMaster(tmp_path_factory.mktemp("master"), "iad1", public, names + pool)
    yield master
    master.stop()


@pytest.fixture(scope="module")
def node(master: PushMaster) -> Iterator[Node]:
    with zmq.Context() as context:
        node = Node(context, master)
        yield node
        node.socket.close()


class Done(NamedTuple):
    status: int
    out: str
    err: str


Subscribe = Callable[..., Done]


@pytest.fixture
def subscribe(master: PushMaster, capsys: pytest.CaptureFixture[str]) -> Subscribe:
    """Runs the command in this process."""

    def run(*arguments: str, address: str = master.public) -> Done:
        status = commands.run(["subscribe", "--master", address, *arguments])
        return Done(status, *capsys.readouterr())

    return run


@pytest.mark.usefixtures("patient_clients")
def test_a_durable_subscription_has_what_came_while_nobody_listened(
    subscribe: Subscribe, node: Node
) -> None:
    made = subscribe(HOT, "--durable", "pager", "--detach")
    kept = "alerts are kept; go on with --durable pager --after {}, "
    kept += "end it with --durable pager --unsubscribe\n"
    assert (made.status, made.out, made.err) == (0, "", kept.format(0))
    node.tell(1)
    node.tell(2, kind=TRIGGER_CLEARED, value=30.5)
    first = subscribe(HOT, "--durable", "pager", "--count", "1")
    header, alert = first.out.splitlines()
    assert header.split() == ["time", "area", "metric", "value", "kind", "trigger", "iad"]
    assert alert.split()[3:10] == ["b1/f4/r1", "temperature", "31.5", "°C", "raised", "hot", "iad1"]
    assert first.err.splitlines()[1:] == [
        "1 alert: 1 raised, 0 cleared",
        kept.format(1).rstrip(),
    ]
    again = subscribe(HOT, "--durable", "pager", "--after", "1", "--count", "1", "--json")
    [line] = map(json.loads, again.out.splitlines())
    assert (line["type"], line["id"], line["position"]) == ("notified", "pager", 2)
    assert line["notification"]["attributes"]["kind"] == "cleared"
    assert again.err.splitlines()[0] == "1 alert: 0 raised, 1 cleared"
    node.tell(3)
    anew = subscribe(HOT, "--durable", "pager", "--after", "0", "--count", "1")
    gone = "2 alerts not kept, acknowledged before or dropped: positions 1 to 2"
    assert anew.out.splitlines()[1] == gone
    assert anew.err.splitlines()[1] == "1 alert: 1 raised, 0 cleared; 2 not kept"
    empty = subscribe(HOT, "--durable", "pager", "--for", "50ms")
    assert (empty.status, len(empty.out.splitlines())) == (0, 1)
    assert empty.err.splitlines()[1] == "no alert came"

    ended = subscribe("--durable", "pager", "--unsubscribe")
    assert (ended.status, ended.err) == (0, "subscription pager is ended\n")
    again = subscribe("--durable", "pager", "--unsubscribe")
    assert (again.status, again.err) == (
        1,
        "fleet: this master keeps no subscription pager for you: nothing was ended\n",
    )
    anew = subscribe(HOT, "--durable", "pager", "--after", "2", "--for", "50ms")
    assert "alerts may be lost after position 2, nobody knows how many: no subscr" in anew.out
    assert "subscribe anew" not in anew.out, "it is made anew already"
    assert anew.err.splitlines()[1].endswith("no alert came; losses of unknown size: 1")
    subscribe("--durable", "pager", "--unsubscribe")


@pytest.mark.usefixtures("patient_clients")
def test_an_iad_that_is_away_is_told_to_who_waits_for_its_alerts(subscribe: Subscribe) -> None:
    told = subscribe('area under "b2" or metric = "co2"', "--for", "50ms")
    away = "missing b2: iad2's master did not answer; alerts come once it does"
    assert told.err.splitlines()[1:] == [away, "no alert came"]
    elsewhere = subscribe('area under "b1"', "--for", "50ms")
    assert "iad2" not in elsewhere.err


@pytest.mark.usefixtures("patient_clients")
def test_a_name_with_a_blank_can_be_pasted(subscribe: Subscribe) -> None:
    made = subscribe(HOT, "--durable", "night shift", "--detach")
    assert "--durable 'night shift' --unsubscribe" in made.err
    assert subscribe("--durable", "night shift", "--unsubscribe").status == 0


@pytest.mark.usefixtures("patient_clients")
def test_a_filter_that_nothing_will_fulfil_is_taken_with_a_word(subscribe: Subscribe) -> None:
    done = subscribe("temperature > 30", "--for", "50ms")
    assert done.status == 0
    assert "no alert will fulfil this: alerts have no temperature, only" in done.err
    assert "no alert will fulfil" not in subscribe(HOT, "--for", "50ms").err
    done = subscribe('iad = "iad9"', "--for", "50ms")
    assert "no IAD in the overlay is; did you mean iad1?" in done.err
    assert "did you mean" not in subscribe('iad = "iad1"', "--for", "50ms").err


def test_ctrl_c_ends_what_is_not_durable_and_sums_up(master: PushMaster, node: Node) -> None:
    process = subprocess.Popen(
        [*agent_command("fleet"), "subscribe", "--master", master.public, "*"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stderr.readline().endswith(": *; Ctrl-C ends it\n")
    node.tell(4)
    process.stdout.readline()
    assert " raised " in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "1 alert: 1 raised, 0 cleared\n")
    assert master.status().counters["open_subscriptions"] == 0


@pytest.mark.usefixtures("patient_clients")
def test_people_get_the_rooms_name_and_programs_what_came(
    subscribe: Subscribe, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # nothing is known from before
    monkeypatch.setattr("fleet.query.subscribe.NAMES_MS", 60_000.0)
    subscribe(HOT, "--durable", "names", "--detach")
    assert list(tmp_path.iterdir()) == [], "who only subscribes asks for no names"
    node.tell(5)
    for_people = subscribe(HOT, "--durable", "names", "--count", "1")
    assert for_people.out.splitlines()[1].endswith("  Küche 4.1")
    node.tell(6)
    for_programs = subscribe(HOT, "--durable", "names", "--count", "1", "--json")
    assert "Küche" not in for_programs.out
    subscribe("--durable", "names", "--unsubscribe")


@pytest.mark.usefixtures("patient_clients")
def test_what_a_master_refuses_is_one_line(master: PushMaster, subscribe: Subscribe) -> None:
    with Client(master.public) as client, client.subscribe("*", id="mine"):
        done = subscribe("*", "--durable", "mine")
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith("fleet: refused: subscription 'mine' is open and not durable")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("metric = temperature",), "at character 10: expected a number, true, false or a string"),
        ((), "say which alerts: 'value > 30', or '*' for all"),
        (("*", "--after", "3"), "--after goes with --durable NAME"),
        (("*", "--detach"), "--detach goes with --durable NAME"),
        (("--unsubscribe",), "--unsubscribe goes with --durable NAME"),
        (("--unsubscribe", "--durable", "a", "--detach"), "choose one"),
        (("*", "--durable", "a" * 65), "a name has 1 to 64 characters; this one has 65"),
    ],
)
def test_what_is_wrong_is_one_line(
    subscribe: Subscribe, arguments: tuple[str, ...], error: str
) -> None:
    done = subscribe(*arguments)
    assert (done.status, done.out) == (2, "")
    assert error in done.err
    assert done.err.count("\n") == 1


def test_who_is_no_master_does_not_reply(subscribe: Subscribe, tmp_path: Path) -> None:
    done = subscribe("*", address=f"ipc://{tmp_path}/nobody")
    assert done.status == 4
    assert "is a master running there?" in done.err
    assert done.err.count("\n") == 1


def test_lines_of_what_is_missing_are_no_alerts_to_wait_for() -> None:
    notification = Notification(Origin("iad1", "4f1d2a", 7), 0, {"kind": "raised"})
    came = [
        UnknownLoss("s", 3, 0, "no subscription is kept"),
        Gap("s", 1, 4),
        Notified("s", 5, notification),
        Notified("s", 6, notification),
        Notified("s", 7, notification),
    ]
    assert list(first_alerts(came, 2)) == came[:4]
    assert list(first_alerts(came, None)) == came


# --- lines --------------------------------------------------------------------------------------


def line(now_s: float = 0.0, **attributes: float | str | bool) -> str:
    notification = Notification(Origin("iad1", "4f1d2a", 7), 0, attributes)
    return alert_line(Notified("s", 1, notification), now_s).plain


def test_an_alert_is_a_line() -> None:
    told = line(
        area="b1/f4/r413", metric="co2", value=1_212.4, kind="raised", trigger="stuffy", iad="iad4"
    )
    assert told[17:] == "b1/f4/r413   co2          1212 ppm  raised   stuffy        iad4"
    assert len(told) <= 80


def test_what_people_call_the_room_is_behind_the_columns() -> None:
    names = {"b1/f4/r413": "Meeting 4.13"}
    for attributes in ({"metric": "co2", "value": 1_212.4}, {"topic": "comfort", "index": 27.25}):
        told = {"area": "b1/f4/r413", "kind": "raised", "iad": "iad4", **attributes}
        notification = Notification(Origin("iad1", "4f1d2a", 7), 0, told)
        each = Notified("s", 1, notification)
        assert alert_line(each, 0.0, names=names).plain == f"{line(**told)}  Meeting 4.13"
        assert alert_line(each, 0.0, names={"b1/f4/r4": "Other"}).plain == line(**told)


def test_an_output_of_a_topic_is_a_line_of_its_own_attributes() -> None:
    told = line(
        iad="iad4", kind="output", topic="comfort", area="b1/f4/r413", index=27.25, state="warm"
    )
    assert told[17:] == "b1/f4/r413   comfort      index=27.2  state=warm  iad4"
    assert len(told) <= 80
    told = line(iad="iad4", kind="input", topic="notes", vote=3.0)
    assert told[17:] == "–            notes        vote=3.0  input iad4"
    of_topics = read_filter('topic = "comfort" or topic = "notes" and kind = "output"')
    assert header(of_topics) == f"{'time':17}area         topic        what it says, and its IAD"
    for wanted in ('topic = "comfort" or metric = "co2"', "*", 'kind = "raised"'):
        assert header(read_filter(wanted)) == header()
    assert summary_line(Tally(others=2), of_topics) == "2 messages"
    assert summary_line(Tally(), of_topics) == "no message came"


def test_what_an_alert_does_not_say_is_a_dash_and_what_else_it_says_follows() -> None:
    told = line(kind="cleared", level=3.0, on=True, text="a\nb\x1b[1m")
    more = ["level=3.0", "on=True", "text=a?b?[1m"]
    assert told[17:].split() == ["–", "–", "–", "cleared", "–", "–", *more]


def test_an_alert_that_comes_long_after_its_time_is_late() -> None:
    full = {"kind": "raised", "area": "b1/f6/r640", "metric": "temperature", "value": 31.5}
    full |= {"trigger": "sultry", "iad": "iad4"}
    for late_s, told in (
        (4.9, ""), (5.1, " +5s"), (125.0, " +2m"), (3_725.2, " +62m"), (9_000.0, " +2h"),
        (2.6e6, " +30d"),
    ):  # fmt: skip
        text = line(now_s=late_s, **full)
        assert ("+" in text, told in text[:15]) == (bool(told), True)
        assert text[15:] == line(now_s=0.0, **full)[15:]
        assert len(text) <= 80


@pytest.mark.parametrize("time_ms", [2**53 - 1, 1 - 2**53, 253_402_300_800_000])
def test_an_alert_of_a_time_that_no_calendar_has_is_a_line(time_ms: int) -> None:
    told = Notification(Origin("iad2", "4f1d2a", 7), time_ms, {"area": "b1/f4/r413", "iad": "iad2"})
    text = alert_line(Notified("s", 1, told), 0.0).plain
    assert text.startswith("unknown time     b1/f4/r413 ")


def test_what_is_missing_is_told_in_its_place() -> None:
    [one, more, lost, unknown] = [
        alert_line(each, 0.0).plain
        for each in (
            Gap("s", 2, 2),
            Gap("s", 2, 41),
            Gap("s", 42, 42, Lost("iad1", "4f1d2a", 7, 9, 2)),
            UnknownLoss("s", 3, 0, "no subscription\x1b is kept"),
        )
    ]
    why = "too many came at a time or while nobody listened"
    assert one == f"1 alert dropped, {why}: position 2"
    assert more == f"40 alerts dropped, {why}: positions 2 to 41"
    before = "2 alerts of iad1 lost before everybody had them, wanted here or not"
    assert lost == f"{before}: 4f1d2a 7 to 9"
    assert unknown == (
        "alerts may be lost after position 3, nobody knows how many: no subscription? is kept"
    )


def test_the_summary_counts() -> None:
    assert summary_line(Tally()) == "no alert came"
    assert summary_line(Tally(others=2)) == "2 alerts"
    assert summary_line(Tally(3, 2, 1)) == "6 alerts: 3 raised, 2 cleared, 1 other"
    told = "no alert came; 40 dropped; losses of unknown size: 2"
    assert summary_line(Tally(dropped=40, losses=2)) == told
