"""The search for the highest load on functions whose answer is known, and statistics by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from fleet.simulation.search import TOLERANCE, highest_load
from fleet.simulation.statistics import gain_percent, interval, student_t

LIMIT = 10.0


class Counted:
    """A ratio, and the loads at which it was measured."""

    def __init__(self, ratio: Callable[[float], float]) -> None:
        self.ratio = ratio
        self.loads: list[float] = []

    def __call__(self, load: float) -> float:
        self.loads.append(load)
        assert 0 < load < LIMIT
        return self.ratio(load)


@pytest.mark.parametrize("start", [0.5, 4.0, 6.0, 9.9])
@pytest.mark.parametrize(
    ("ratio", "answer"),
    [
        (lambda load: 3.0 / (LIMIT - load), 7.0),
        (lambda load: 0.5 + 1.0 / (LIMIT - load), 8.0),
        (lambda load: 0.2 + 0.8 * (load / 3.0) ** 6, 3.0),
        (lambda load: load / 6.5, 6.5),
        (lambda load: 0.99 + 0.01 * load / 5.0, 5.0),
        (lambda load: 0.5 if load < 4.2 else 30.0, 4.2),
        (lambda load: 0.7 if load < 7.0 else math.inf, 7.0),
        (lambda load: 0.1, LIMIT),
    ],
)
def test_finds_where_the_ratio_passes_1(
    ratio: Callable[[float], float], answer: float, start: float
) -> None:
    counted = Counted(ratio)
    found = highest_load(counted, start=start, limit=LIMIT)
    assert found == pytest.approx(answer, rel=TOLERANCE)
    # The answer is held between two measured loads, or one and the limit.
    below = max(load for load in counted.loads if ratio(load) <= 1)
    above = min([load for load in counted.loads if ratio(load) > 1], default=LIMIT)
    assert below <= found <= above <= below * (1 + 1.01 * TOLERANCE)
    assert len(counted.loads) <= 16


def test_a_good_first_guess_takes_few_measurements() -> None:
    for guess in (6.8, 7.0, 7.2):
        counted = Counted(lambda load: 3.0 / (LIMIT - load))
        found = highest_load(counted, start=guess, limit=LIMIT)
        assert len(counted.loads) <= 4
        # 1 / ratio is linear here: what lies between is exact.
        assert found == pytest.approx(7.0, rel=1e-9)


def test_a_ratio_above_1_at_every_load() -> None:
    counted = Counted(lambda load: 1.5 + load)
    assert highest_load(counted, start=5.0, limit=LIMIT) == 0.0
    assert min(counted.loads) < 0.01


def test_a_jump_in_a_noisy_measure_does_not_make_it_endless() -> None:
    counted = Counted(lambda load: load / 5.0 + (0.05 if int(load * 100) % 2 else -0.05))
    assert highest_load(counted, start=9.0, limit=LIMIT) == pytest.approx(5.0, rel=0.07)
    assert len(counted.loads) <= 24


@pytest.mark.parametrize(
    ("degrees", "t"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (10, 2.2281), (30, 2.0423)],
)
def test_students_t_as_in_printed_tables(degrees: int, t: float) -> None:
    assert student_t(0.95, degrees) == pytest.approx(t, abs=6e-5)


def test_an_interval_by_hand() -> None:
    found = interval([1.0, 2.0, 3.0, 4.0])
    assert found.mean == 2.5
    # s = 1.29099, t = 3.18245 with 3 degrees of freedom.
    assert found.half_width == pytest.approx(3.18245 * 1.2909944 / 2, rel=1e-5)
    assert interval([7.0]).half_width is None


def test_gains_are_paired() -> None:
    """Both double, whatever the seed: a gain without spread."""
    found = gain_percent([2.0, 6.0, 10.0], [1.0, 3.0, 5.0])
    assert found.mean == pytest.approx(100.0)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)
