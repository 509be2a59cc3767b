"""`fleet up` from start to end, as in a terminal that closes."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from agent.client import Client
from agent.gateway.tokens import create_token
from agent.wire.edge_config import EdgeSensor
from agent.wire.messages import Answer, Coverage
from fleet.common import exits
from fleet.query import running
from fleet.testbed import page
from fleet.testbed.ports import claimed
from fleet.testbed.processes import agent_command
from fleet.testbed.run_folder import MARKER
from fleet.testbed.testbed import TestbedError
from fleet.up import up as up_command
from testkit.waiting import wait_until

TIMEOUT_S = 150.0
Done = subprocess.CompletedProcess[str]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Done]]:
    """Runs a command in a folder of its own; what runs there in the end is ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("CI", "1")

    def call(*words: str) -> Done:
        return subprocess.run(
            [*agent_command("fleet"), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
            start_new_session=True,
        )

    yield call
    call("down")


def agents(folder: Path) -> dict[str, psutil.Process]:
    """The agents that run there, by the folder of their configuration."""
    return {
        Path(word).parent.name: process
        for process in psutil.process_iter(["cmdline"])
        for word in process.info["cmdline"] or []
        if word.startswith(f"{folder}/") and word.endswith("/config.toml")
    }


def outputs(folder: Path) -> list[str]:
    """The outputs of the page that is served there."""
    token = create_token(str(folder / "gateway/access.json"), "test", "viewer")
    request = urllib.request.Request(
        f"{page.served_at(folder)}api/v1/outputs", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request) as reply:
        return [each["name"] for each in json.load(reply)["outputs"]]


def test_it_answers_outlives_its_terminal_mends_itself_and_ends(fleet, tmp_path):
    here = ("--directory", str(tmp_path / "var/up"), "--sensor", "synthetic:7")
    told = tmp_path / "var/up/gateway/outputs.toml"
    told.parent.mkdir(parents=True)
    told.write_text('[[ntfy]]\nname = "phone"\nurl = "http://127.0.0.1:9/rooms"\n')
    (tmp_path / "var/up" / MARKER).touch()  # as after a run before
    up = fleet("up", *here)
    assert up.returncode == 0, up.stderr
    assert outputs(tmp_path / "var/up") == ["ntfy phone"], "the user's file outlives a start"
    assert "home/room: humidity " in up.stdout
    # What it says to type next can be typed; its starter has ended, with its terminal's session.
    assert "Try, in this folder:\n" in up.stdout
    assert "fleet query --area home/room --last 10m\n" in up.stdout
    asked = fleet("query", "--area", "home/room", "--slo", "p99=10s")
    assert asked.returncode == 0, asked.stderr
    assert "complete: 1 of 1 areas" in asked.stdout

    again = fleet("up", *here)
    assert (again.returncode, again.stderr) == (0, "it runs already:\n")
    other = fleet("up", "--sensor", "synthetic:8")
    assert other.returncode == exits.FAILED
    assert "runs already, with --sensor=synthetic:7 --area=home/room" in other.stderr

    elsewhere = fleet("up", "--directory", str(tmp_path / "other"), "--sensor", "synthetic:7")
    assert elsewhere.returncode == exits.FAILED
    assert f"runs already, of {tmp_path}/var/up" in elsewhere.stderr
    assert not (tmp_path / "other").exists()
    (tmp_path / "away").mkdir()
    with contextlib.chdir(tmp_path / "away"):
        away = fleet("down")
    assert away.returncode == exits.FAILED
    assert f"was started in {tmp_path}: `fleet down` there ends it" in away.stderr

    agents(tmp_path)["synthetic-7"].send_signal(signal.SIGKILL)
    wait_until(
        lambda: fleet("query", "--area", "home/room", "--slo", "p99=10s", "--last", "2s"),
        lambda done: done.returncode == 0,
        what="the node, started again",
    )
    [found] = running.found()
    os.kill(found.pid, signal.SIGHUP)  # the terminal's last word
    ended = fleet("down")
    assert (ended.returncode, agents(tmp_path)) == (0, {})
    assert ended.stderr == "ended; its readings and logs stay in var/up/\n"
    assert fleet("down").returncode == exits.NOTHING
    assert (tmp_path / "var/up/home/synthetic-7/history.sqlite").exists()


def test_a_page_that_is_not_served_is_told_with_the_reason(fleet, tmp_path):
    outputs_toml = tmp_path / "var/up/gateway/outputs.toml"
    outputs_toml.parent.mkdir(parents=True)
    outputs_toml.write_text("[mqtt\n")
    (tmp_path / "var/up" / MARKER).touch()
    for _ in ("first", "again"):
        up = fleet("up", "--sensor", "synthetic")
        assert up.returncode == 0, "it answers"
        assert "there is no live page: gateway ended with exit status 2\n" in up.stderr
        assert "outputs.toml: not valid TOML: " in up.stderr
        assert "`fleet down` and `fleet up` bring the page" in up.stderr
        assert "Its page" not in up.stdout


def test_a_reading_without_a_value_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(up_command, "FIRST_READING_S", 1.0)
    file = tmp_path / "empty.csv"
    file.write_text("timestamp,temperature\n2013-08-23 23:05:00,\n")
    replayed = EdgeSensor(driver="replay", options={"file": str(file)})
    options = up_command.Options(tmp_path / "up", replayed, "home/x", "replay", ())
    with up_command._testbed(options) as bed:
        for _ in bed.start():
            pass
        words = "no value came in 1 s: readings without a value: home/x: temperature – °C"
        with pytest.raises(TestbedError, match=words):
            up_command._await_answer(bed, options)


def test_a_recording_is_played_at_any_interval(fleet, tmp_path):
    up = fleet("up", "--every", "5s")
    assert up.returncode == 0, up.stderr
    assert "b1/f6/r640: humidity " in up.stdout


@pytest.mark.parametrize(
    ("sensor", "says"),
    [
        ("dht22", "dht22 needs its pin; write dht22:D4; see fleet up --help"),
        ("replay:640x", "no recording of room 640x"),
        ("synthetc", "did you mean synthetic?"),
    ],
)
def test_a_sensor_that_cannot_be_is_refused_before_anything_starts(fleet, sensor, says, tmp_path):
    done = fleet("up", "--sensor", sensor)
    assert done.returncode == exits.USAGE
    assert says in done.stderr
    assert not (tmp_path / "var").exists()


def test_a_folder_with_something_else_is_left_alone(fleet, tmp_path):
    (tmp_path / "var/up").mkdir(parents=True)
    (tmp_path / "var/up/thesis.tex").touch()
    done = fleet("up", "--sensor", "synthetic")
    assert done.returncode == exits.FAILED
    assert "holds something else than a run" in done.stderr
    assert [each.name for each in (tmp_path / "var/up").iterdir()] == ["thesis.tex"]


def test_on_a_disk_that_takes_no_log_the_reason_is_said(tmp_path, monkeypatch, capsys):
    full = shutil.disk_usage(tmp_path)._replace(free=4_096)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: full)
    monkeypatch.setattr(up_command.processes, "agent_command", lambda _name: ["false"])
    replayed = EdgeSensor(driver="replay", options={"room": "640"})
    options = up_command.Options(tmp_path / "up", replayed, "home/x", "replay", ())
    assert up_command.up(options) == exits.FAILED
    assert capsys.readouterr().err.endswith(
        f"fleet: it did not start, and {tmp_path}/up/up.log has no reason; the disk of "
        f"{tmp_path}/up is full: make room there, or name another --directory\n"
    )


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> up_command.Options:
    """What `fleet up` was told that runs, of whose processes none is there."""
    replayed = EdgeSensor(driver="replay", options={"room": "640"})
    options = up_command.Options(tmp_path / "up", replayed, "home/x", "replay", ())
    dead = running.Addresses("home", "tcp://127.0.0.1:1", "tcp://127.0.0.1:1")
    found = running.Running(
        1, (dead,), str(tmp_path), "up", directory=str(tmp_path / "up"), runs=options.runs
    )
    monkeypatch.setattr("fleet.query.running.found", lambda: [found])
    return options


def test_a_master_that_does_not_answer_is_no_fault_of_the_command(runs, capsys):
    assert up_command.up(runs) == exits.FAILED
    told = capsys.readouterr().err
    assert told.startswith("it runs already:\nfleet: its master does not answer now; ")
    assert told.endswith("up.log says if it ended, and is started again\n")


def test_a_link_that_cannot_be_made_is_told(runs, monkeypatch, capsys):
    class Answers(Client):
        def query(self, *_args, **_options):
            return Answer("q", "complete", 1.0, True, Coverage(0, 0), ())

    monkeypatch.setattr(up_command, "Client", Answers)
    assert up_command.up(runs) == exits.DONE
    told = capsys.readouterr()
    assert "Its page" not in told.out
    assert "no link to its page could be made; `" in told.err


def test_it_has_ended_though_nobody_reaps_it(runs, tmp_path, monkeypatch):
    """As in a container whose first process is no init."""
    script = (
        "import subprocess, sys; began = subprocess.Popen(['sleep', '600']); "
        "print(began.pid, flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        monkeypatch.chdir(tmp_path)
        [found] = running.found()
        monkeypatch.setattr("fleet.query.running.found", lambda: [replace(found, pid=pid)])
        monkeypatch.setattr(up_command, "END_PATIENCE_S", 10.0)
        assert up_command.down() == exits.DONE
        assert "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
        parent.communicate()


def test_a_usual_port_is_held_by_one_at_a_time():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert claimed(port) is None, "somebody listens there"
    first = claimed(port)
    assert first is not None
    assert claimed(port) is None
    first.close()
    again = claimed(port)
    assert again is not None
    again.close()
