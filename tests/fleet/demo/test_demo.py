"""The demo end to end, and Ctrl-C in the middle of it."""

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
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
SCREENS, LINES, COLUMNS = 2, 24, 80
TIMEOUT_S = 150.0
# How the commands that go on until Ctrl-C end in a test, and what they say then.
ENDS = {
    "watch": (("--rounds", "1"), "1 round, "),
    "subscribe": (("--count", "1"), "1 alert: "),
    "status": ((), "that is iad1's master alone; --iad asks another's: iad2, iad3, iad4\n"),
}


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


def agent_of(directory: Path, name: str) -> psutil.Process:
    """A node's or a master's process."""
    return next(
        each for each in of_run(directory) if f"/{name}/config.toml" in " ".join(each.cmdline())
    )


def read_until(process: subprocess.Popen[str], words: str) -> list[str]:
    """The lines of its output up to the one that contains `words`."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"no {words!r} in: {''.join(lines)}")


def require_story(out: str) -> None:
    """It is short, and says what there is to see."""
    # But for what befalls the fleet meanwhile.
    lines = [line for line in out.splitlines() if not re.match(r"iad2-n3|  \S*sanderling-", line)]
    assert len(lines) <= SCREENS * LINES, out
    # But for what is to be copied whole, and names the test's folder.
    wide = [line for line in lines if len(line) > COLUMNS]
    assert [line for line in wide if not re.search(r"^ {2,}\S*fleet |http://|/tmp/", line)] == []
    for words in (
        "4 masters and 32 nodes are up after ",
        "Its live page, for one browser within 10 minutes:\n",
        "\n  http://127.0.0.1:",
        "32 of 32 rooms in ",
        ": humidity ",
        " was measured\n",
        " lost, 0 doubled.",
        "b1/f4 ",
        "one room of the slowest owner ",
        "of 300 simulated",
        "The promise was 99 of 100",
    ):
        assert words in out


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
    with demo(run, *BRIEF, "--verbose") as process:
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (0, "")
    assert of_run(run) == []
    require_whole(out, run)
    assert "[1/5]" not in out


@pytest.mark.parametrize(
    "moment",
    [
        "Starting 4 masters, 32 nodes",
        pytest.param("1 s under EDFQ", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_leaves_nothing_behind(tmp_path: Path, moment: str) -> None:
    run = tmp_path / "run"
    with demo(run, *BRIEF, "--verbose") as process:
        read_until(process, moment)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert err == "fleet: interrupted; no process of the fleet is left\n"
    assert of_run(run) == []


def test_keep_leaves_the_fleet_up_and_its_commands_work_as_printed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with demo(run, *BRIEF, "--keep") as process:
        story = read_until(process, "[5/5]")
        agent_of(run, "iad2-n3").kill()  # what it measures is missing; the demo goes on
        story += read_until(process, "Its live page, for one browser")
        assert process.stdout is not None
        story += [process.stdout.readline(), process.stdout.readline()]
        assert re.fullmatch(r"Another link: \S*fleet gateway link\n", story[-1])
        assert any(line.startswith("iad2-n3 ended with signal SIGKILL: ") for line in story)
        require_story("".join(story))
        require_whole((run / "details.txt").read_text("utf-8"), run)
        commands = [line.strip() for line in story if re.match(r"  \S*fleet ", line)]
        assert len(commands) == 4
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
            said, _, more = done.stderr.partition("\n")
            assert said.startswith("asking the demo that runs here: "), command
            assert (summary in more) if summary else more == "", command
        with pytest.raises(RunFolderError, match="another run is at work"), run_folder(run):
            pass
        require_page(story)
        require_found(run)
        require_deaths_survived(process, run)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    # It stayed until then, as it had said: that is no failure, and make shows none.
    assert (process.returncode, err) == (0, "ended; no process of the fleet is left\n")
    assert of_run(run) == []


def require_page(story: list[str]) -> None:
    """Both links let a browser in, each once; the rooms and the runs are there."""
    first, last = (line.strip() for line in story if line.startswith("  http://"))
    assert first != last
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    for link in (first, last):
        browser.open(link, timeout=TIMEOUT_S).close()
    base = last.partition("login")[0]
    with browser.open(f"{base}api/v1/comparison", timeout=TIMEOUT_S) as answer:
        assert [run.policy for run in msgspec.json.decode(answer.read(), type=Results).virtual] == [
            "fifo",
            "edfq",
        ]
    with browser.open(f"{base}api/v1/now", timeout=TIMEOUT_S) as answer:
        assert len(msgspec.json.decode(answer.read())["rooms"]) == 32


def require_found(run: Path) -> None:
    """Without an address the demo is asked; what it refuses names its operator's socket."""
    sockets = msgspec.toml.decode((run / "iad1" / "config.toml").read_bytes())["sockets"]
    operator = sockets["operator"]
    fleet = agent_command("fleet")
    done = subprocess.run(
        [*fleet, "query", "--area", "b1"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 3
    said, refusal = done.stderr.splitlines()
    assert said.startswith("asking the demo that runs here: --master tcp://127.0.0.1:")
    assert refusal.endswith("; there are humidity, temperature; choose one with --service")
    nowhere = [*fleet, "query", "--area", "b1", "--service", "nope"]
    done = subprocess.run(nowhere, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.splitlines()[-1].endswith(
        "; there are humidity, temperature; choose one with --service"
    )
    done = subprocess.run(
        [*fleet, "service", "list"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert "humidity" in done.stdout
    assert done.stderr.splitlines()[0] == f"asking the demo that runs here: --operator {operator}"


def require_deaths_survived(process: subprocess.Popen[str], run: Path) -> None:
    """A node dies, then a master that is not the one that is asked: what is left answers."""
    addresses = msgspec.toml.decode((run / "iad1" / "config.toml").read_bytes())["sockets"]
    for name, reason in (("iad3-n1", "node_down"), ("iad4", "iad_unreachable")):
        agent_of(run, name).kill()
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
import fcntl, sys
file = open(sys.argv[1], "ab")
fcntl.flock(file, fcntl.LOCK_EX)
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer(path: Path) -> Iterator[int]:
    """A process that has the file open for writing; its pid."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
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


def test_a_process_whose_files_cannot_be_listed_is_known_by_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(process: psutil.Process) -> list[object]:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "open_files", denied)
    run = tmp_path / "run"
    with run_folder(run, pytest.fail):
        (run / "iad1").mkdir()
    with writer(run / "iad1" / "state.sqlite.lock"):
        held = f"what holds {os.path.relpath(run)}/iad1/state.sqlite.lock"
        assert left(run) == (
            f"started by hand, and still running: {held}: `fuser` as root names the process"
        )
        with pytest.raises(RunFolderError, match="in use by what holds "), run_folder(run):
            pass
    assert left(run) == "no process of the fleet is left"


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
