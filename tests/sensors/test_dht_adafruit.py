"""What is said of pins and boards that Blinka does not know, in the process itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from sensors.base import SensorError
from sensors.dht import adafruit


class Pin:
    """As Blinka's are: of several modules, and called so in all of them."""


BOARD = SimpleNamespace(D4=Pin(), D17=Pin(), SDA=None, board_id="SOME_BOARD", _private=Pin())


def test_a_pin_is_found_by_its_name() -> None:
    assert adafruit._pin(BOARD, "D4") is BOARD.D4


@pytest.mark.parametrize(
    ("name", "hint"),
    [("D44", "did you mean D4?"), ("GPIO18", "known: D4, D17"), ("SDA", "known: D4, D17")],
)
def test_a_wrong_pin_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(SensorError) as caught:
        adafruit._pin(BOARD, name)
    assert str(caught.value) == f"no pin {name}; {hint}"


@pytest.mark.parametrize("name", ["_private", "board_id", "D4"])
def test_a_board_without_pins_is_named(name: str) -> None:
    with pytest.raises(SensorError, match="knows no pin header on SOME_BOARD"):
        adafruit._pin(SimpleNamespace(board_id="SOME_BOARD", _private=Pin()), name)


def test_with_a_header_blinkas_own_words_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(adafruit, "DEVICES", str(tmp_path))
    error = OSError(16, "Device or resource busy")
    assert "this machine has no pin header" in str(adafruit._missing(error))
    (tmp_path / "gpiochip0").touch()
    assert str(adafruit._missing(error)) == "Blinka: OSError: [Errno 16] Device or resource busy"
