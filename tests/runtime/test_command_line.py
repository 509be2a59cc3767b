"""The command line that all agents share, as processes: what they say, and what they end with."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agent import entry_points
from agent.client import Operator
from agent.runtime.command_line import PURPOSES
from fleet.testbed.processes import agent_command

AGENTS = {
    "sanderling-edge": """
[node]
name = "n1"
areas = ["b1/r1"]
[master]
address = "tcp://127.0.0.1:5701"
[[sensor]]
driver = "synthetic"
""",
    "sanderling-master": """
[iad]
name = "iad1"
[sockets]
public = "tcp://127.0.0.1:5700"
nodes = "tcp://127.0.0.1:5701"
operator = "tcp://127.0.0.1:5702"
[[pool]]
iad = "iad1"
address = "tcp://127.0.0.1:5700"
areas = ["b1"]
""",
}


@pytest.fixture(params=list(AGENTS))
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def config(agent: str, tmp_path: Path) -> Path:
    file = tmp_path / "agent.toml"
    file.write_text(AGENTS[agent])
    return file


def run(agent: str, *arguments: str | Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [*agent_command(agent), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_check_says_that_a_good_file_is_ok(agent: str, config: Path) -> None:
    assert run(agent, "--check", "--config", config) == (0, f"{config}: ok\n", "")
    assert list(config.parent.iterdir()) == [config]


def test_help(agent: str) -> None:
    status, out, err = run(agent, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: {agent} --config FILE ")
    assert "--exit-on-stdin-eof" in out
    assert PURPOSES[agent] in out.splitlines()


@pytest.mark.parametrize("program", list(PURPOSES))
def test_help_fits_a_terminal_and_has_the_options_of_that_program(program: str) -> None:
    status, out, _ = run(program, "--help")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    reads_sensors = program in ("sanderling-edge", "sanderling-probe")
    assert ("--leave-sensors" in out) is reads_sensors
    assert ("--background" in out) is (program != "sanderling-probe")


def test_version(agent: str) -> None:
    status, out, err = run(agent, "--version")
    assert (status, err) == (0, "")
    assert re.fullmatch(rf"{agent} \d+\.\d+\.\d+\S*\n", out)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "--config is missing"),
        (["--confg", "x"], "--confg not recognized"),
        (["--config"], "--config requires argument"),
        (["--config", "x", "--check=1"], "--check must not have an argument"),
        (["--config", "x", "y.toml"], "y.toml is too much"),
        (["--config", "/does/not/exist"], "/does/not/exist: No such file"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(
    agent: str, arguments: list[str], problem: str
) -> None:
    status, out, err = run(agent, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: ")
    assert problem in err


@pytest.mark.parametrize("options", [["--check"], ["--background"], []])
def test_a_wrong_file_is_one_line_and_status_2(
    agent: str, config: Path, options: list[str]
) -> None:
    config.write_text(config.read_text().replace("5701", "none"))
    status, out, err = run(agent, "--config", config, *options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {config}: ")
    assert "'tcp://127.0.0.1:none' is neither tcp://host:port, " in err


INTERRUPTED = """
import os, signal, sys
from agent import entry_points

class Interrupt:
    def find_spec(self, name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv[1:] = ["--help"]
entry_points.{command}()
"""


@pytest.mark.parametrize("name", ["msgspec", "agent.runtime.signals"])
@pytest.mark.parametrize("command", ["edge", "probe", "pod", "master", "drs"])
def test_ctrl_c_while_it_is_being_loaded_ends_it_quietly(command: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(command=command, name=name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


FAILING_THREAD = """
import sys, threading
from agent import entry_points

def fails():
    1 / 0

fails.__globals__["__name__"] = "{owner}"

def main():
    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()
    print("goes on")

import agent.{module}.main
agent.{module}.main.main = main
entry_points.{command}()
"""


def run_failing_thread(command: str, module: str, owner: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FAILING_THREAD.format(command=command, module=module, owner=owner)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "module"), [("edge", "edge"), ("master", "master"), ("gateway", "gateway")]
)
def test_an_agent_ends_with_any_of_its_threads(command: str, module: str) -> None:
    """One whose thread for sockets has ended seems well to a service manager."""
    done = run_failing_thread(command, module, "agent.net.intake")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ZeroDivisionError" in done.stderr


def test_an_agent_outlives_the_thread_of_a_driver() -> None:
    done = run_failing_thread("edge", "edge", "drivers.mine")
    assert (done.returncode, done.stdout) == (0, "goes on\n")
    assert "ZeroDivisionError" in done.stderr


def test_each_agent_starts_there() -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    scripts = tomllib.loads(pyproject.read_text())["project"]["scripts"]
    agents = {name.removeprefix("sanderling-"): x for name, x in scripts.items() if name != "fleet"}
    assert agents == {name: f"agent.entry_points:{name}" for name in agents}
    assert all(callable(getattr(entry_points, name)) for name in agents)


def test_standard_input_that_has_ended_ends_it_in_order(agent: str, config: Path) -> None:
    for port in ("5700", "5701", "5702"):
        config.write_text(
            config.read_text().replace(f"tcp://127.0.0.1:{port}", f"ipc://{config}{port}")
        )
    status, _, err = run(agent, "--config", config, "--exit-on-stdin-eof")
    assert (status, "error" in err) == (0, False)
    command = 'exec "$0" "$@" <&-'
    closed = subprocess.run(
        ["sh", "-c", command, *agent_command(agent), "--config", config, "--exit-on-stdin-eof"],
        timeout=60,
        check=False,
    )
    assert closed.returncode == 0


def test_in_the_background_it_returns_when_it_serves(tmp_path: Path) -> None:
    """A node serves once it has joined its master."""
    begun: list[subprocess.Popen[str]] = []
    pids = []
    try:
        for agent in ("sanderling-master", "sanderling-edge"):
            file = tmp_path / f"{agent}.toml"
            file.write_text(AGENTS[agent].replace("tcp://127.0.0.1:", f"ipc://{tmp_path}/"))
            command = [*agent_command(agent), "--config", file, "--background"]
            begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            assert begun[-1].wait(60) == 0
            assert begun[-1].stdout is not None
            said = re.fullmatch(
                rf"{agent} serves: kill (\d+) ends it; it writes to {file.with_suffix('.log')}\n",
                begun[-1].stdout.read(),  # to its end: what the agent writes later goes there
            )
            assert said
            pids.append(int(said[1]))
        with Operator(f"ipc://{tmp_path}/5702") as operator:
            assert [node.state for node in operator.status(20_000).nodes] == ["live"]
    finally:
        for pid in reversed(pids):
            ended = os.pidfd_open(pid)
            os.kill(pid, signal.SIGTERM)
            assert select.select([ended], [], [], 60)[0]
            os.close(ended)
        for each in begun:
            each.communicate(timeout=60)


def test_in_the_background_it_outlives_its_terminal(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(AGENTS["sanderling-master"].replace("tcp://127.0.0.1:", f"ipc://{tmp_path}/"))
    command = [*agent_command("sanderling-master"), "--config", str(file), "--background"]
    shell, terminal = pty.fork()
    if shell == 0:
        os.execv(command[0], command)
    shown = b""
    while not (said := re.search(rb"serves: kill (\d+) ends it", shown)):
        shown += os.read(terminal, 4_096)
    assert os.waitstatus_to_exitcode(os.waitpid(shell, 0)[1]) == 0
    os.close(terminal)
    agent = int(said[1])
    ended = os.pidfd_open(agent)
    try:
        assert os.getsid(agent) == agent
        with Operator(f"ipc://{tmp_path}/5702") as operator:
            operator.status(20_000)
    finally:
        os.kill(agent, signal.SIGTERM)
        assert select.select([ended], [], [], 60)[0]
        os.close(ended)


def test_in_the_background_what_cannot_start_has_its_own_status(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(AGENTS["sanderling-master"].replace("tcp://127.0.0.1:", "ipc:///no/folder/"))
    status, out, err = run("sanderling-master", "--config", file, "--background")
    assert (status, out) == (1, "")
    assert err.startswith("error: ")


@pytest.mark.parametrize(("before", "mode"), [(0o000, 0o640), (0o022, 0o640), (0o077, 0o600)])
def test_no_file_of_an_agent_is_for_others_whatever_its_starter_allows(
    tmp_path: Path, before: int, mode: int
) -> None:
    script = (
        "from agent.runtime import sqlite\n"
        "from agent.runtime.signals import Start\n"
        "Start(background=False)\n"
        "sqlite.open_alone('state.sqlite', lambda file: file.execute('CREATE TABLE t (x)'),"
        " print, 'in use')\n"
        "open('records.jsonl', 'w').close()\n"
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        umask=before,
        timeout=60,
        check=True,
    )
    modes = {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
    assert {"state.sqlite", "state.sqlite.lock", "records.jsonl"} <= modes.keys()
    assert set(modes.values()) == {mode}


def test_one_for_which_nobody_waits_any_more_goes_on(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "from agent.runtime.signals import Start\n"
        "start = Start(background=True)\n"
        "os.kill(os.getppid(), signal.SIGKILL)\n"
        "os.read(0, 1)\n"  # it is closed after that process has ended
        "start.serves()\n"
        "print('goes on')\n"
    )
    begun = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert begun.wait(60) == -signal.SIGKILL
    assert begun.communicate(timeout=60)[0] == "goes on\n"
