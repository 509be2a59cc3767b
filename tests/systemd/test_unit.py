"""The units as systemd reads them: nothing unknown in them, and their scores. About 2 s."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.edge.sampling.sampling import SAMPLERS_PATIENCE_S
from agent.edge.watchdog import PATIENCE_S
from agent.runtime.command_line import UNUSABLE

FOLDER = Path(__file__).parents[2] / "images/systemd"
EDGE = FOLDER / "sanderling-edge.service"
MASTER = FOLDER / "sanderling-master.service"
WORST_SCORE = 2.5

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


class Twice(dict):
    """Keys that come more than once, as lists of lines."""

    def __setitem__(self, key, value):
        if key in self and isinstance(value, list):
            self[key].extend(value)
        else:
            super().__setitem__(key, value)


@pytest.fixture(params=[EDGE, MASTER], ids=["edge", "master"])
def unit(request):
    return request.param


@pytest.fixture
def service(unit):
    parser = configparser.RawConfigParser(
        dict_type=Twice, strict=False, delimiters=["="], interpolation=None
    )
    parser.optionxform = str
    parser.read(unit)
    return parser["Service"]


@pytest.fixture
def runnable(unit, tmp_path):
    """The unit with a program that is there: /opt/sanderling is not on this machine."""
    program = re.search(r"^ExecStart=(\S+)", unit.read_text(), re.MULTILINE)[1]
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(program, "/bin/true"))
    return copy


def analyze(*arguments):
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    return subprocess.run(
        ["systemd-analyze", *arguments],
        capture_output=True,
        check=False,
        text=True,
        env=environment,
    )


@needs_analyze
def test_systemd_knows_every_line(runnable):
    done = analyze("verify", "--man=no", runnable)
    assert (done.returncode, done.stderr) == (0, "")


@needs_analyze
def test_a_wrong_line_would_be_seen(runnable):
    runnable.write_text(runnable.read_text().replace("[Install]", "Restrat=always\n\n[Install]"))
    assert "Restrat" in analyze("verify", "--man=no", runnable).stderr


@needs_analyze
def test_its_score(runnable):
    summary = analyze("security", "--offline=true", "--no-pager", runnable).stdout
    score = float(re.search(r"exposure level for \S+: ([0-9.]+)", summary)[1])
    assert score <= WORST_SCORE, summary


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="no systemd-sysusers here")
def test_the_user_and_its_groups_can_be_made(tmp_path):
    (tmp_path / "etc").mkdir()
    done = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", FOLDER / "sanderling.sysusers"],
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode and os.geteuid():
        pytest.skip(f"systemd-sysusers needs root here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    groups = (tmp_path / "etc/group").read_text().splitlines()
    mine = {line.split(":")[0] for line in groups if line.split(":")[3] == "sanderling"}
    assert mine == {"gpio", "dialout"}


def test_a_unit_waits_until_its_agent_is_ready(service):
    assert service["Type"] == "notify"


def test_an_agent_writes_to_its_folder_of_state_alone(service):
    """Its keys in /etc/sanderling are its user's: ConfigurationDirectory= would let it write them,
    whatever ProtectSystem= says."""
    assert service["ProtectSystem"] == "strict"
    directories = {name: service[name] for name in service if name.endswith("Directory")}
    assert directories == {
        "StateDirectory": "sanderling",
        "WorkingDirectory": "/var/lib/sanderling",
    }
    assert "ReadWritePaths" not in service


def test_an_agent_is_kept_from_other_processes_of_its_user(service):
    """Such as the check of the next release, or the other agent of a host."""
    assert service["PrivateUsers"] == "yes"


def test_no_new_start_mends_an_unusable_configuration(service):
    assert service["RestartPreventExitStatus"] == str(UNUSABLE)


@pytest.mark.parametrize("unit", [EDGE], ids=["edge"])
def test_times_are_those_of_the_edge_agent(service):
    """What the unit says of the agent is what the agent does."""
    assert float(service["TimeoutStopSec"]) >= 5 * SAMPLERS_PATIENCE_S
    # Stuck is judged by the agent; systemd waits for no less.
    assert float(service["WatchdogSec"]) >= PATIENCE_S


def test_the_program_is_one_of_this_distribution(unit, service):
    program, *arguments = service["ExecStart"].split()
    folder, _, name = program.rpartition("/")
    assert folder == "/opt/sanderling/current/bin"
    assert Path(sys.executable).with_name(name).exists()
    assert name == unit.stem
    configuration = f"/etc/sanderling/{unit.stem.removeprefix('sanderling-')}.toml"
    assert arguments == ["--config", configuration]
