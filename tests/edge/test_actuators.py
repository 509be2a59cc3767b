"""Actuators get the newest output, and what goes wrong with one is a line."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agent.edge.actuators.base import Actuator, ActuatorError, Output
from agent.edge.actuators.registry import open_actuator
from agent.edge.actuators.thread import ActuatorThread
from sensors.base import SensorError


def opened(folder: Path, **options: Any) -> Actuator:
    return open_actuator("file", options, str(folder))


def test_the_file_has_the_newest_value_as_a_line(tmp_path: Path) -> None:
    driver = opened(tmp_path, path="valve", channel="opening")
    driver.put_out(Output({"opening": 0.25, "other": 3.0}, 0))
    driver.put_out(Output({"other": 4.0}, 0))
    assert (tmp_path / "valve").read_text() == "0.25\n"
    driver.put_out(Output({"opening": 1.0}, 0))
    assert (tmp_path / "valve").read_text() == "1\n"
    assert [each.name for each in tmp_path.iterdir()] == ["valve"]


def test_without_a_channel_it_has_all_values_as_json(tmp_path: Path) -> None:
    opened(tmp_path, path="out").put_out(Output({"a": 1.5, "b": 2.0}, 0))
    assert (tmp_path / "out").read_text() == '{"a":1.5,"b":2.0}\n'


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    driver = opened(tmp_path, path="no/valve")
    with pytest.raises(ActuatorError, match="no/valve: No such file or directory"):
        driver.put_out(Output({"a": 1.0}, 0))


@pytest.mark.parametrize(
    ("name", "options", "line"),
    [
        ("file", {}, "file: path is missing"),
        ("file", {"path": "x", "chanel": "y"}, "file: unknown option chanel"),
        ("fill", {"path": "x"}, "unknown actuator driver fill; did you mean file"),
    ],
)
def test_a_wrong_configuration_is_one_line(
    name: str, options: dict[str, Any], line: str, tmp_path: Path
) -> None:
    with pytest.raises(SensorError, match=line):
        open_actuator(name, options, str(tmp_path))


def test_a_driver_that_ends_the_process_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_valve.py").write_text("raise SystemExit(0)")
    found = tmp_path / "acme-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (found / "entry_points.txt").write_text("[sanderling.actuators]\nvalve = acme_valve:open\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SensorError, match=r"^valve: SystemExit: 0$"):
        open_actuator("valve", {}, str(tmp_path))


class Slow:
    """A driver that waits for the test."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.got: list[float] = []
        self.closed = False

    def put_out(self, output: Output) -> None:
        self.begun.set()
        assert self.go_on.wait(60.0)
        self.got.append(output.values["a"])
        if output.values["a"] == 1.0:
            raise ActuatorError("the valve is stuck")
        if output.values["a"] == 3.0:
            raise ValueError("a mistake")
        if output.values["a"] == 4.0:
            raise SystemExit(1)

    def close(self) -> None:
        self.closed = True
        if self.got == [4.0]:
            raise ValueError("another one")


def test_while_a_driver_is_busy_only_the_newest_waits_and_errors_end_nothing() -> None:
    driver, complaints = Slow(), []
    thread = ActuatorThread(driver, complaints.append)
    thread.put(Output({"a": 1.0}, 0))
    assert driver.begun.wait(60.0)
    thread.put(Output({"a": 2.0}, 0))
    thread.put(Output({"a": 3.0}, 0))
    driver.go_on.set()
    thread.close()
    assert driver.got == [1.0, 3.0]
    assert complaints == ["the valve is stuck", "ValueError: a mistake"]
    assert driver.closed


def test_a_driver_that_ends_its_process_ends_nothing() -> None:
    driver, complaints = Slow(), []
    driver.go_on.set()
    thread = ActuatorThread(driver, complaints.append)
    thread.put(Output({"a": 4.0}, 0))
    thread.close()
    assert complaints == ["SystemExit: 1", "ValueError: another one"]
    assert driver.closed
