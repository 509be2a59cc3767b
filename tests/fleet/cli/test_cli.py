"""The command as a user runs it: what it prints where, and what it ends with."""

import io
import json
import os
import pty
import re
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from agent.wire.codec import Decoder
from agent.wire.messages import Answer, AnswerStatus, Coverage, Slo
from agent.wire.operator import IadStatus, NodeAlert, NodeFault, NodeStatus
from fleet.common import exits
from fleet.query.status import show_status
from fleet.terminal.screen import status_line
from fleet.testbed.ports import free_ports
from fleet.testbed.processes import agent_command
from fleet.testbed.testbed import Testbed
from testkit.terminals import shown
from tests.fleet.conftest import SMALL

ROOM = SMALL.nodes[0].area


def fleet(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*agent_command("fleet"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def query(bed: Testbed, *arguments: str) -> subprocess.CompletedProcess[str]:
    return fleet("query", "--master", bed.public("iad1"), "--slo", "p99=5s", *arguments)


def test_a_complete_answer_is_a_table_and_status_0(bed: Testbed) -> None:
    done = query(bed, "--area", "b1", "--last", "10m")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == sorted(node.area for node in SMALL.nodes)
    assert "complete: 4 of 4 areas in " in done.stdout
    assert "p99.5 ≤ 5000 ms" not in done.stdout
    explained = query(bed, "--area", "b1", "--last", "10m", "--explain").stdout
    assert "p99.5 ≤ 5000 ms" in explained
    assert "°C temperature, % humidity; replayed now from a recording of 2013-" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(len(line) for line in lines) <= 80


def test_one_channel_as_an_aggregate(bed: Testbed) -> None:
    done = query(bed, "--area", ROOM, "--aggregate", "--channel", "humidity")
    assert done.returncode == 0
    assert "°C" not in done.stdout
    assert "last" not in done.stdout


def test_a_partial_answer_says_what_is_missing_and_why(bed: Testbed) -> None:
    sensor = ("--channel", "temperature", "--ago", "300d")
    done = query(bed, "--area", ROOM, "--area", "b1", *sensor, "--last", "1m")
    assert done.returncode == 1
    assert done.stdout.startswith("empty: no readings in the window, of ")
    assert ROOM in done.stdout
    assert "SLO" not in done.stdout


def test_an_area_that_is_mistyped_is_wrong_usage_with_the_one_that_was_meant(bed: Testbed) -> None:
    done = query(bed, "--area", ROOM[:-1])
    told = f"fleet: no area {ROOM[:-1]}; did you mean {ROOM}?\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)
    done = query(bed, "--area", ROOM, "--area", "b1/f9")
    told = "fleet: no area b1/f9; `fleet areas` lists what there is\n"
    assert (done.returncode, done.stderr) == (2, told)
    assert "complete: 1 of 1 areas in " in done.stdout
    assert "partial" not in done.stdout


def test_how_much_of_a_long_window_is_there_is_said(bed: Testbed) -> None:
    done = query(bed, "--area", ROOM, "--last", "30d")
    assert done.returncode == 0
    assert re.search(rf"{ROOM} holds \S+ of the 30d asked", done.stdout)
    several = query(bed, "--area", "b1", "--last", "30d", "--aggregate").stdout
    assert re.search(r"\d areas hold less than the 30d asked, \S+ only \S+", several)
    assert "asked" not in query(bed, "--area", ROOM, "--last", "1h").stdout
    program = query(bed, "--area", ROOM, "--last", "30d", "--json")
    answer = json.loads(program.stdout)
    assert answer["status"] == "complete"
    [result] = answer["results"]
    assert result["held_from_ms"] == result["series"]["time_ms"][0]
    told = rf"{ROOM} holds \S+ of the 30d asked\n"
    assert re.fullmatch(told, program.stderr)


def test_an_slo_that_nobody_can_keep_says_what_would_help(bed: Testbed) -> None:
    done = query(bed, "--area", "b1", "--slo", "p99=0.01ms")
    assert "the answer timeout was 0.04 ms, 4 times the SLO's latency" in done.stdout
    assert "--timeout 10s" in done.stdout


def test_a_service_that_is_not_there_says_where_to_look(bed: Testbed) -> None:
    done = query(bed, "--area", ROOM, "--service", "nope")
    assert done.returncode == 3
    assert "; there is default; choose one with --service" in done.stderr


def test_json_is_the_answer_of_the_wire(bed: Testbed) -> None:
    done = query(bed, "--area", ROOM, "--last", "1m", "--json")
    assert done.returncode == 0
    answer, _ = Decoder[Answer](Answer).decode(b"10J" + done.stdout.encode())
    assert answer.status == "complete"
    series = answer.results[0].series
    assert series is not None
    assert len(series.time_ms) == len(series.values["temperature"]) > 0


def test_json_keeps_the_exit_status(bed: Testbed) -> None:
    done = query(bed, "--area", "b1/f9", "--json")
    assert done.returncode == 2
    answer, _ = Decoder[Answer](Answer).decode(b"10J" + done.stdout.encode())
    assert answer.status == "partial"


def test_a_refused_query_is_one_line_and_status_3(bed: Testbed) -> None:
    areas = [word for number in range(1_025) for word in ("--area", f"a{number}")]
    done = query(bed, *areas)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("fleet: refused: ")
    assert done.stderr.count("\n") == 1


def test_a_silent_master_is_one_line_and_status_4() -> None:
    [port] = free_ports(1)
    address = f"tcp://127.0.0.1:{port}"
    for command in (
        ("query", "--master", address, "--area", "b1", "--timeout", "1ms"),
        ("status", "--operator", address, "--timeout", "1ms"),
    ):
        done = fleet(*command)
        assert (done.returncode, done.stdout) == (4, "")
        assert address in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_socket_of_another_kind_is_one_line_and_status_4(bed: Testbed) -> None:
    public, nodes, operator = bed.addresses[:3]
    for command, address, what in (
        (("query", "--area", "b1", "--master"), operator, "public"),
        (("query", "--area", "b1", "--master"), nodes, "public"),
        (("status", "--operator"), public, "operator"),
        (("status", "--operator"), nodes, "operator"),
    ):
        done = fleet(*command, address)
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith(f"fleet: {address} is a master's ")
        assert f"; this goes to a master's {what} socket" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:99999", "ipc://" + "a" * 200])
@pytest.mark.parametrize(
    "command",
    [("query", "--area", "b1", "--timeout", "1ms", "--master"), ("status", "--operator")],
)
def test_an_address_that_cannot_be_is_one_line_and_status_2(
    command: tuple[str, ...], address: str
) -> None:
    done = fleet(*command, address)
    assert (done.returncode, done.stdout) == (2, "")
    assert address in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("status", "elapsed_ms", "says"),
    [
        ("complete", 499.0, "1 of 2 areas in 499 ms, within its SLO (p99 ≤ 500 ms)"),
        ("complete", 501.0, "1 of 2 areas in 501 ms, over its SLO (p99 ≤ 500 ms)"),
        ("partial", 3.0, "1 of 2 areas in 3.0 ms, in time but not whole (p99 ≤ 500 ms)"),
        ("partial", 501.0, "1 of 2 areas in 501 ms, SLO missed (p99 ≤ 500 ms)"),
    ],
)
def test_only_a_complete_answer_keeps_its_slo(
    status: AnswerStatus, elapsed_ms: float, says: str
) -> None:
    met = status == "complete" and elapsed_ms <= 500
    answer = Answer("q", status, elapsed_ms, met, Coverage(1, 2))
    assert str(status_line(answer, Slo(99.0, 500.0))) == f"{status}: {says}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["query", "--area", "b1"], "no demo or `fleet up` runs here"),
        (["query", "--master", "127.0.0.1:5700", "--area", "b1"], "tcp://host:port"),
        (["query", "--master", "tcp://h:1", "--area", "b1//f4"], "b1/f4/r413"),
        (["query", "--area", "home/küche"], "names of a-z, A-Z, 0-9, _ . and -, with / between"),
        (["query", "--master", "tcp://h:1", "--area", "b1", "--last", "10"], "has no unit"),
        (["query", "--master", "tcp://h:1", "--area", "b1", "--slo", "fast"], "p99=500ms"),
        (["query", "--master", "tcp://h:1", "--area", "b1", "--channel", "T"], "temperature"),
        (["query", "b1/f4"], "an area needs its option: --area b1/f4; see fleet query --help\n"),
        (["query", "--mster", "tcp://h:1"], "--master"),
        (["query", "--mster", "tcp://h:1"], "; see fleet query --help\n"),
        (["query", "--operator", "tcp://h:1"], "Did you mean '--master'?"),
        (["topic", "create", "x", "--master", "tcp://h:1"], "Did you mean '--operator'?"),
        (["service", "create", "a b"], "; see fleet service create --help\n"),
        (["query", "--master", "tcp://h:1", "--key", "k"], "; see fleet query --help\n"),
        (["watch", "--master", "tcp://h:1", "--area", "b1", "--every", "10ms"], "from 50ms"),
        (["qery"], "qery"),
        (["qery"], "'qery'; did you mean query? See fleet --help\n"),
        (["QUERY"], "did you mean query?"),
        (["nonsense"], "No such command 'nonsense'; see fleet --help\n"),
        (
            ["topic", "drop", "means"],
            "'drop'; there are create, enable, list, publish, remove, show; see fleet topic --help",
        ),
        (["gateway", "token", "new"], "; there are "),
        (["-v", "query", "--area"], "; see fleet query --help\n"),
        (["demo", "--rate", "-1"], "--rate"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments: list[str], says: str) -> None:
    done = fleet(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_is_there_without_an_error() -> None:
    for arguments in (["--help"], ["query", "--help"], ["status", "--help"], ["demo", "--help"]):
        done = fleet(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: fleet")


@pytest.mark.parametrize("everything", [False, True])
def test_a_state_counts_its_work_and_what_went_wrong_in_a_table(everything: bool) -> None:
    counters = {"queries": 1412, "subtasks": 5, "deadlines_missed": 2, "late_results": 0}
    more = {"rounds_sent": 200, "records_lost": 3, "overlay_sent_have": 9}
    status = IadStatus("iad1", "edfq", (), (), 0, 1, counters | more)
    file = io.StringIO()
    show_status(Console(file=file, width=80, highlight=False), status, everything=everything)
    shown = file.getvalue().splitlines()[-7:]
    assert (
        shown
        == [
            *(["work of its master  open  so far"] if not everything else []),
            "queries                0    1412",
            "tasks                  1       0",
            "subtasks                       5",
            "deadlines missed               2",
            *(["rounds sent                  200"] if everything else []),
            "records lost                   3",
            *([] if everything else ["and 1 other counter: --all"]),
            "A subtask that misses its deadline may still leave its query within its SLO.",
        ][-7:]
    )


def test_a_state_tells_which_faults_are_open_since_when() -> None:
    at = datetime.now().astimezone().replace(hour=9, minute=26, second=5)
    faults = (
        NodeFault(
            "desk", "temperature", round(at.timestamp() * 1e3), True, "no_response: gone\x1b[2J"
        ),
        NodeFault("cellar", "humidity", 2**52, False, "drift: 12.5 %"),
    )
    nodes = (
        NodeStatus("n2", "live", ("b1/r2",), 1, 1, 0, 0, ""),
        NodeStatus("n1", "lost", ("b1/r1",), 1, 0, 0, 0, "", faults=faults),
    )
    file = io.StringIO()
    status = IadStatus("iad1", "edfq", nodes, (), 0, 0, {})
    show_status(Console(file=file, width=200, highlight=False), status)
    shown = file.getvalue().splitlines()
    assert [row.split() for row in shown[4:9]] == [
        ["open", "faults:", "2"],
        ["node", "sensor", "channel", "since", "what"],
        ["n1", "desk", "temperature", "09:26:05", "no_response:", "gone?[2J"],
        ["n1", "cellar", "humidity", "unknown", "time?", "drift:", "12.5", "%"],
        ["?", "by", "a", "clock", "that", "was", "not", "synchronised"],
    ]
    file = io.StringIO()
    show_status(Console(file=file, width=200), replace(status, nodes=nodes[:1]))
    assert "fault" not in file.getvalue()
    assert "trigger" not in file.getvalue()


def test_nothing_that_a_node_says_moves_the_cursor() -> None:
    evil = "\x1b[2J\x1b]0;title\x07\u202e\r\nsanderling: all is well"
    node = NodeStatus("n1", "live", ("b1/r1",), 1, 1, 0, 0, evil)
    file = io.StringIO()
    show_status(Console(file=file, width=200), IadStatus("iad1", "edfq", (node,), (), 0, 0, {}))
    shown = file.getvalue()
    assert all(line.isprintable() for line in shown.split("\n"))
    assert not any(line.startswith("sanderling") for line in shown.split("\n"))
    assert "?[2J?]0;title?" in shown


def test_a_state_tells_which_triggers_are_raised_since_when() -> None:
    at = datetime.now().astimezone().replace(hour=9, minute=26, second=5)
    alert = NodeAlert("hot", ("b1/r1",), round(at.timestamp() * 1e3), True, "temperature > 30: 31")
    nodes = (NodeStatus("n1", "live", ("b1/r1",), 1, 0, 0, 0, "", alerts=(alert,)),)
    file = io.StringIO()
    status = IadStatus("iad1", "edfq", nodes, (), 0, 0, {})
    show_status(Console(file=file, width=200, highlight=False), status)
    shown = file.getvalue().splitlines()
    assert [row.split() for row in shown[3:6]] == [
        ["raised", "triggers:", "1"],
        ["node", "trigger", "areas", "since", "what"],
        ["n1", "hot", "b1/r1", "09:26:05", "temperature", ">", "30:", "31"],
    ]


def test_status_shows_every_node(bed: Testbed) -> None:
    done = fleet("status", "--operator", bed.operator("iad1"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "iad1: 2 of 2 nodes live, policy " in done.stdout
    assert all(node.name in done.stdout for node in SMALL.iads[0].nodes)

    done = fleet("status", "--operator", bed.operator("iad1"), "--json")
    status, _ = Decoder[IadStatus](IadStatus).decode(b"10J" + done.stdout.encode())
    assert {node.node for node in status.nodes} == {node.name for node in SMALL.iads[0].nodes}


@pytest.mark.parametrize("no_color", [True, False])
def test_colour_is_for_terminals_that_want_it(bed: Testbed, no_color: bool) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS"}}
    environment |= {"TERM": "xterm-256color"} | ({"NO_COLOR": "1"} if no_color else {})
    command = [*agent_command("fleet"), "query", "--master", bed.public("iad1"), "--area", ROOM]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, env=environment) as process:
        os.close(theirs)
        screen = shown(ours)
    os.close(ours)
    assert process.returncode == 0
    assert ("\x1b[1;32m" in screen or "\x1b[32m" in screen) == (not no_color)
    assert "complete" in screen


@pytest.mark.parametrize(
    "wanted",
    [
        ["query", "--area", "b1", "--last", "3h", "--slo", "p99=5s", "--json"],
        ["watch", "--area", "b1", "--every", "100ms", "--slo", "p99=5s"],
    ],
)
def test_a_reader_that_has_enough_is_no_error(bed: Testbed, wanted: list[str]) -> None:
    command = [*agent_command("fleet"), *wanted, "--master", bed.public("iad1")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        told = process.stderr.read()
    assert process.returncode == 0, told
    assert b"rror" not in told


def test_a_folder_that_was_deleted_is_told_in_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    remove = 'rmdir "$PWD"; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", remove, "sh", *agent_command("fleet"), "channels"],
        cwd=gone, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == exits.USAGE
    assert done.stderr == "fleet: this folder was deleted; go to another one\n"


def test_the_command_lies_beside_python() -> None:
    assert Path(agent_command("fleet")[0]).is_file()
    with pytest.raises(FileNotFoundError, match="install"):
        agent_command("sanderling-nothing")
