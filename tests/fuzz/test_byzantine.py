"""Another master, a node, the registration service and a client that lie within conversations:
nothing raises, and honest parties are served. `make fuzz` runs as many histories as wanted."""

from __future__ import annotations

import pytest

from tests.fuzz import byzantine
from tests.fuzz.byzantine import run
from tests.fuzz.campaign import Finding

SERIES = [
    ("ci", 150),
    *(pytest.param(f"ci {n}", 800, marks=pytest.mark.long) for n in range(1, 7)),
]


@pytest.mark.parametrize(("seed", "actions"), SERIES)
def test_no_lie_ends_a_master_and_honest_parties_are_served(tmp_path, seed, actions):
    assert run(tmp_path, actions, seed) > actions


def test_without_lies_all_are_served(tmp_path):
    assert run(tmp_path, 100, "ci", least=0.0) == 0


def test_what_is_not_survived_is_told_with_the_last_lies(tmp_path, monkeypatch):
    def nobody_is_served(_world):
        raise AssertionError("no answer")

    monkeypatch.setattr(byzantine, "serves", nobody_is_served)
    told = r"action 50 of seed 'x': AssertionError: no answer\n(\S.*>.* [0-9a-f]+\n?)+$"
    with pytest.raises(Finding, match=told):
        run(tmp_path, 50, "x")
