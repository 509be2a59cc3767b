"""What moves while a command works fits a terminal of 80 columns: texts fold, nothing is cut."""

import io
import re
import sys

import pytest

from fleet.cli import image_flash
from fleet.image import screen as image_screen
from fleet.image.writing import Step
from fleet.lake.pull import screen as logs_screen
from fleet.lake.pull.outcome import HostPulled
from fleet.rollout import view
from fleet.simulation.screen import DemoScreen
from fleet.terminal import screen
from lab.simulation.points import Key
from lab.simulation.run import Setting
from lab.simulation.screen import SimulationScreen
from lab.simulation.table_v import SIZES

COLUMNS = 80


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """All that ever was on it, each line as often as it was drawn, without colours."""
        drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())
        return [line.rstrip() for line in re.split(r"[\r\n]+", drawn)]


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What standard error is until the test ends; of no fixture, as pytest sets it afterwards."""
    shown = Terminal()
    for name, value in (("COLUMNS", COLUMNS), ("LINES", 24), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(sys, "stderr", shown)
    return shown


def require_whole(terminal: Terminal, *parts: str) -> None:
    lines = terminal.lines()
    assert max(map(len, lines)) <= COLUMNS
    text = " ".join(" ".join(lines).split())
    for part in parts:
        assert part in text
        text = text.replace(part, "")
    assert "…" not in text


def test_a_deployment_with_hosts_at_every_step(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with view.shown(200) as moving:
        assert isinstance(moving, view.Moving)
        for number, do in enumerate([*view.DOING] * 20):
            moving.begun(f"iad4/n{number}", do)
    require_whole(terminal, "0/200 0:00:00", "20 looking, 20 uploading,", "20 rolling back")


def test_logs_that_are_pulled(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with logs_screen.shown(200) as moving:
        moving.landed(12_345_678_901)
        moving.ended(HostPulled("iad4/n1", "complete"))
    require_whole(terminal, "1/200 0:00:00", "12 GB")


def test_an_image_that_is_built(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with image_screen.stages() as say:
        say("unpacking [base] and " + " and ".join(["another package of Debian"] * 4))
        say("configuring")
    require_whole(terminal, "0 s unpacking [base] and another", "0:00:00 configuring")


def test_a_card_that_is_flashed(monkeypatch):
    terminal = terminal_of(monkeypatch)
    with image_flash._bars(16_000_000_000) as told:
        told(Step("writing", 16_000_000_000))
        told(Step("verifying", 12_345_678_901))
    require_whole(terminal, "verifying", "12.3/16.0 GB")


def test_a_simulation_with_two_processes(monkeypatch):
    terminal = terminal_of(monkeypatch)
    keys = [
        Key(Setting(SIZES[-1], "query", "clip", 2_000, seed), "edfq", (1.0,)) for seed in (11, 12)
    ]
    with (shown := SimulationScreen(screen.console(stderr=True))).running(keys):
        for process, key in enumerate(keys):
            shown.begun(process, key)
    require_whole(terminal, "0 % 0:00:00 left", "seed 11, EDFQ curve", "seed 12, EDFQ curve")
    for seed in (11, 12):  # each on a line of its own
        assert (
            f"  18,000 nodes, one k_t a query, clipped, seed {seed}, EDFQ curve" in terminal.lines()
        )


def test_a_step_of_the_demo(monkeypatch):
    terminal = terminal_of(monkeypatch)
    show = DemoScreen(screen.console(stderr=True))
    text = "Starting a registration service, 4 masters and 32 edge nodes"
    with show.progress(text, 32) as advance:
        advance(8, "4/4 masters, 10,000/30,000 nodes")
    require_whole(terminal, f"{text} …", "4/4 masters, 10,000/30,000 nodes")
