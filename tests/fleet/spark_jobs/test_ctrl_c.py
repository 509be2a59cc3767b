"""Ctrl-C at every stage of what Spark does for an operator: it ends, in one line, and cleanly."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest

from fleet.lake.schema.folder import Lake
from testkit.agent_process import LISTENS, installed
from tests.examples import CAMPAIGN
from tests.fleet.spark_jobs import landings

PATIENCE_S = 300
LOOK_S = 0.02
REPORT = ("report",)
INGEST = ("lake", "ingest")
FOLLOW = ("lake", "follow", "--every", "50ms")


class Pressed:
    """A command that is being watched: what it says, and what it makes."""

    def __init__(self, lake: Lake, arguments: tuple[str, ...], scratch: Path) -> None:
        self.lake = lake
        self.said: list[str] = []
        scratch.mkdir()
        command = [installed("fleet"), *arguments, "--spark", "local[2]", "--lake", lake.root]
        self.process = subprocess.Popen(
            [*LISTENS, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(scratch)},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(self.process.stderr)

    def await_stage(self, reached) -> None:
        """Until `reached` is true of this."""
        end_s = time.monotonic() + PATIENCE_S
        while not reached(self):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < end_s, self.said
            threading.Event().wait(LOOK_S)

    def press(self) -> list[psutil.Process]:
        """Ctrl-C; every process of which nothing may be left."""
        started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE_S)
        self._reader.join()
        return started

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()


def says(words: str):
    return lambda command: any(words in line for line in command.said)


def makes(pattern: str):
    return lambda command: next(command.lake.root.glob(pattern), None) is not None


def starts_java(command: Pressed) -> bool:
    return bool(psutil.Process(command.process.pid).children())


def runs(process: psutil.Process) -> bool:
    """Nobody may have reaped it."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def landed(root: Path) -> Lake:
    lake = Lake(root)
    records = []
    for n in range(300):
        wall_ms = 1_795_000_000_000 + 1_000 * n
        records.append(landings.query(query=f"q{n}", wall_ms=wall_ms, tasks=[f"q{n}/1"]))
        records.append(landings.task(task=f"q{n}/1", wall_ms=wall_ms))
        records.append(landings.subtask(task=f"q{n}/1", wall_ms=wall_ms))
    landings.write_lines(lake, "1.jsonl", records)
    landings.write_rows(lake, "groups", "1.parquet", [landings.group(count=600)])
    landings.write_rows(lake, "nodes", "1.parquet", [landings.node()])
    return lake


STAGES = [
    (REPORT, says("to read: "), "long"),
    (REPORT, says("starting Spark"), ""),
    (REPORT, starts_java, ""),
    (REPORT, says("taking in what was pulled"), "campaign"),
    (REPORT, makes("checkpoints/landing/offsets/0"), "campaign"),
    (REPORT, makes("staging/tables/*/new"), "campaign"),
    (REPORT, makes("tables/queries/*"), "campaign"),
    (REPORT, says("computing"), "campaign"),
    (REPORT, says("writing the page"), "campaign"),
    (REPORT, says("writing models"), "campaign"),
    (INGEST, starts_java, "campaign"),
    (INGEST, makes("staging/tables/*/new"), "long"),
    (FOLLOW, says("following"), "campaign"),
    (FOLLOW, makes("staging/tables/*/new"), "campaign"),
    (FOLLOW, makes("checkpoints/landing/commits/0"), "campaign"),
]


@pytest.fixture(scope="module")
def times(request):
    """Seconds from Ctrl-C to the end, by stage. Printed, not asserted: a machine that is at work
    stretches them (what they are bounded by is in tests/fleet/spark/test_interrupts.py)."""
    found = {}
    yield found
    screen = request.config.pluginmanager.get_plugin("terminalreporter")
    if found and screen is not None:
        stage, longest_s = max(found.items(), key=lambda each: each[1])
        screen.write_line(
            f"\nCtrl-C at {len(found)} stages: ended within {longest_s:.2f} s, longest at {stage}"
        )


MARKS = {"": [], "long": [pytest.mark.long], "campaign": CAMPAIGN}


@pytest.mark.parametrize(
    ("arguments", "reached"), [pytest.param(*stage, marks=MARKS[kind]) for *stage, kind in STAGES]
)
def test_ctrl_c_ends_it(tmp_path, request, times, arguments, reached):
    lake = landed(tmp_path / "lake")
    times[request.node.name] = require_end(lake, arguments, reached, tmp_path / "scratch")


def require_end(lake, arguments, reached, scratch) -> float:
    """Press, and require a clean end; returns how long it took, in seconds."""
    with contextlib.closing(Pressed(lake, arguments, scratch)) as command:
        command.await_stage(reached)
        pressed_s = time.monotonic()
        started = command.press()
        took_s = time.monotonic() - pressed_s
    assert command.process.returncode == 130, command.said
    assert command.said[-1] == "fleet: interrupted\n"
    assert [line for line in command.said if line.startswith((" ", "Traceback", "fleet:"))] == [
        "fleet: interrupted\n"
    ]
    assert [process for process in psutil.wait_procs(started, PATIENCE_S)[1] if runs(process)] == []
    return took_s
