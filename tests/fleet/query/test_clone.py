"""`fleet clone`: what it prints."""

from __future__ import annotations

import io

import pytest
from msgspec import structs
from rich.console import Console

from agent.wire.clones import CloneOf, CloneStatus
from fleet.query import clone_screen

STATUS = CloneStatus(
    CloneOf("iad1/iad1-n1", "comfort_index", every_s=1.0),
    "clone.6d7c68fd4ac09610",
    "open",
    iad="iad1",
    rounds=1_033,
    rounds_failed=9,
    outputs=1_024,
)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (STATUS, "well"),
        (structs.replace(STATUS, trouble="its last round brought nothing"), "trouble"),
    ],
)
def test_a_list_has_a_line_for_a_clone_well_or_not_in_eighty_columns(status, state):
    file = io.StringIO()
    clone_screen.show_list(Console(file=file, width=80, highlight=False), (status,))
    header, line = file.getvalue().splitlines()
    assert header.split()[-1] == "state"
    assert line.split() == [
        "iad1/iad1-n1", "comfort_index", "iad1", "clone.6d7c68fd4ac09610", "1024", "1024", state,
    ]  # fmt: skip
