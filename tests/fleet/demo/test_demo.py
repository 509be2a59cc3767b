"""The demo end to end, and Ctrl-C in the middle of it."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from agent.client import Client
from fleet.common import exits
from fleet.demo.demo import Results, left
from fleet.simulation import workload
from fleet.testbed.processes import agent_command, holders
from fleet.testbed.run_folder import RunFolderError, run_folder
from fleet.testbed.run_records import read_records
from testkit.waiting import wait_until

BRIEF = ("--seconds", "1", "--virtual", "300")
TIMEOUT_S = 150.0
# How the commands that go on until Ctrl-C end in a test, and what they say then.
ENDS = {"watch": (("--rounds", "1"), "1 round, "), "subscribe": (("--count", "1"), "1 alert: ")}


def of_run(directory: Path) -> list[psutil.Process]:
    """The agents that were started for the run in `directory`."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(directory) in word for word in process.info["cmdline"] or [])
        and "demo" not in process.info["cmdline"]
    ]


@contextmanager
def demo(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running demo; killed if the test fails."""
    command = [*agent_command("fleet"), "demo", "--directory", str(directory), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """The lines of its output up to the one that contains `words`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"no {words!r} in: {''.join(lines)}")


def require_whole(out: str, run: Path) -> None:
    """Everything was shown, and the files say the same."""
    for words in (
        "4 masters and 32 edge nodes are up",
        "4 IADs offer temperature",
        "humidity: likewise, 4 IADs",
        "streaming, every second",
        "fired: b1/f4/r413",
        "by iad4 → iad2 → iad1",
        "ms from the alert's reading to all of these at iad1.",
        "  floors       temperature=",
        " messages: 0 lost, 0 doubled, 0 reordered.",
        "Emulated:",
        "complete: 1 of 1 areas",
        "complete: 4 of 4 areas",
        "complete: 32 of 32 areas",
        "unloaded  deadline",
        "Measured at the client",
        "Virtual time: not measured on the fleet above",
    ):
        assert words in out
    assert "\x1b" not in out

    results = msgspec.json.decode((run / "results.json").read_bytes(), type=Results)
    alerts = re.findall(r"^\d\d:\d\d:\d\d \+\d+m?s .*  humidity-up   iad4$", out, re.MULTILINE)
    assert len(results.alerts_ms) == len(alerts) > 0
    assert all(0.0 < late_ms < 60_000.0 for late_ms in results.alerts_ms)
    trace = workload.replay(run / "trace.jsonl")
    assert [r.policy for r in results.real] == [r.policy for r in results.virtual]
    for real in results.real:
        assert sum(c.n for c in real.classes) == len(trace)
    for virtual in results.virtual:
        assert sum(c.n for c in virtual.classes) == 300
    records = read_records(run / "iad4" / "records")
    labels = {r.label for r in records if hasattr(r, "label")}
    assert {"warm-up", "fifo 1.2", "edfq 1.2", "Everything"} <= labels


@pytest.mark.long
def test_the_demo_from_start_to_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with demo(run, *BRIEF) as process:
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (0, "")
    assert of_run(run) == []
    require_whole(out, run)


@pytest.mark.parametrize(
    "moment",
    [
        "Starting a registration service",
        pytest.param("1 s under EDFQ", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, moment: str) -> None:
    run = tmp_path / "run"
    with demo(run, *BRIEF) as process:
        read_until(process, moment)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert err == "fleet: interrupted; no process of the fleet is left\n"
    assert of_run(run) == []


def test_keep_leaves_the_fleet_up_and_its_commands_work_as_printed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with demo(run, *BRIEF, "--keep") as process:
        require_whole("".join(read_until(process, "Ctrl-C stops it")), run)
        printed = read_until(process, "service show")
        commands = [line.strip() for line in printed if line.startswith("  ")]
        assert len(commands) == 11
        for command in commands:
            words = shlex.split(command)
            end, summary = ENDS.get(words[1], ((), ""))
            done = wait_until(
                lambda words=(*words, *end): subprocess.run(
                    words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
                ),
                # On a busy machine some areas may answer after the half second that it says.
                lambda done: done.returncode != exits.FAILED,
                what=command,
            )
            assert done.returncode == 0, command
            assert (summary in done.stderr) if summary else done.stderr == "", command
        with pytest.raises(RunFolderError, match="another run is at work"), run_folder(run):
            pass
        require_found(commands[-1])
        require_deaths_survived(process, run)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (
        130,
        "fleet: interrupted; no process of the fleet is left\n",
    )
    assert of_run(run) == []


def require_found(to_operator: str) -> None:
    """Without an address the demo is asked; what it refuses names its operator's socket."""
    fleet = agent_command("fleet")
    done = subprocess.run(
        [*fleet, "query", "--area", "b1"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 3
    said, refusal = done.stderr.splitlines()
    assert said.startswith("asking the demo that runs here: --master tcp://127.0.0.1:")
    operator = shlex.split(to_operator)[-1]
    assert refusal.endswith(f"see `fleet service list --operator {operator}`")
    done = subprocess.run(
        [*fleet, "service", "list"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert "humidity" in done.stdout
    assert done.stderr == f"asking the demo that runs here: --operator {operator}\n"


def require_deaths_survived(process: subprocess.Popen[str], run: Path) -> None:
    """A node dies, then a master that is not the one that is asked: what is left answers."""
    addresses = msgspec.toml.decode((run / "iad1" / "config.toml").read_bytes())["sockets"]
    for name, reason in (("iad3-n1", "node_down"), ("iad4", "iad_unreachable")):
        agent = next(a for a in of_run(run) if f"/{name}/config.toml" in " ".join(a.cmdline()))
        agent.kill()
        end, again = read_until(process, f"/{name}/config.toml")
        assert end.startswith(f"{name} ended with signal SIGKILL: ")
        assert again.startswith("  ")
        assert len(end.rstrip()) <= 80
        with Client(addresses["public"]) as client:
            answer = client.query(
                ["b1"], last_s=60, latency_ms=10_000, service="temperature", timeout_ms=20_000
            )
        assert reason in {gap.reason for gap in answer.missing}
        assert process.poll() is None
    # What is printed brings it back.
    with subprocess.Popen(
        [*shlex.split(again), "--exit-on-stdin-eof"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as master:
        assert b"listening" in master.stderr.readline()


def test_a_new_run_keeps_the_ones_before(tmp_path: Path) -> None:
    run = tmp_path / "run"
    said: list[str] = []
    for number in range(3):
        with run_folder(run, said.append):
            assert [p.name for p in run.iterdir()] == [".sanderling-run"]
            (run / "lake").mkdir()
            (run / "lake" / "report").write_text(f"{number}")
            (run / "link").symlink_to(tmp_path)
            os.utime(run / ".sanderling-run", (0, 0))  # all began at the same time
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "run",
        "run-1970-01-01T000000Z",
        "run-1970-01-01T000000Z-2",
    ]
    assert said == [
        f"the run before is kept in {run}-1970-01-01T000000Z/",
        f"the run before is kept in {run}-1970-01-01T000000Z-2/",
    ]
    for folder, content in ((f"{run}-1970-01-01T000000Z", "0"), (run, "2")):
        assert (Path(folder) / "lake" / "report").read_text() == content
        assert (Path(folder) / "link").is_symlink()
    # What was moved aside is a run like any other.
    with run_folder(Path(f"{run}-1970-01-01T000000Z"), said.append):
        assert len(said) == 3


WRITER = """
import sys
file = open(sys.argv[1], "ab")
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer(path: Path) -> Iterator[int]:
    """A process that has the file open for writing; its pid."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        yield process.pid


def test_a_run_whose_files_a_process_writes_stays_where_it_is(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with run_folder(run, pytest.fail):
        (run / "iad1").mkdir()
    with writer(run / "iad1" / "state.lock") as pid:
        words = rf"\({pid}\); `kill {pid}` ends it; or name another --directory"
        with pytest.raises(RunFolderError, match=words), run_folder(run, pytest.fail):
            pass
        assert left(run).startswith("started by hand, and still running: ")
        assert left(run).endswith(f"({pid}); `kill {pid}` ends it")
        assert (run / "iad1" / "state.lock").exists()
        assert holders(tmp_path / "ru") == []
    assert left(run) == "no process of the fleet is left"
    said: list[str] = []
    with run_folder(run, said.append):
        assert len(said) == 1


def test_a_run_that_is_only_read_is_moved(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with run_folder(run, pytest.fail):
        (run / "output.log").touch()
    with (run / "output.log").open(), writer(tmp_path / "other"):
        assert holders(run) == []


def test_a_run_that_made_nothing_leaves_no_folder(tmp_path: Path) -> None:
    for _ in range(2):
        with run_folder(tmp_path / "run", pytest.fail):
            pass
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_run_touches_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(RunFolderError, match="something else than a run"), run_folder(tmp_path):
        pass
    with pytest.raises(RunFolderError), run_folder(tmp_path / "precious"):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]
