"""The policies are one queue under five keys."""

import math

import pytest

from _core.queue.edf import EdfQueue
from _core.queue.policy import (
    DEMOTED,
    DEMOTING,
    EDFQ,
    FIFO,
    POLICIES,
    SANDERLING,
    SPR,
    TEDFQ,
    hopeless,
    policy_key,
)


def test_names() -> None:
    assert POLICIES == {
        "fifo": FIFO,
        "spr": SPR,
        "tedfq": TEDFQ,
        "edfq": EDFQ,
        "sanderling": SANDERLING,
    }
    assert len(set(POLICIES.values())) == 5
    assert {"sanderling"} == DEMOTING


def test_keys() -> None:
    assert policy_key(FIFO, 10.0, 0.5, 10.2) == 10.0
    assert policy_key(SPR, 10.0, 0.5, 10.2) == 0.5
    assert policy_key(TEDFQ, 10.0, 0.5, 10.2) == 10.5
    assert policy_key(EDFQ, 10.0, 0.5, 10.2) == 10.2
    assert policy_key(SANDERLING, 10.0, 0.5, math.nan, 0.25) == 10.25
    assert policy_key(TEDFQ, 10.0, 0.5, 10.2, 0.25) == 10.5


def test_hopeless_is_what_ends_after_the_slo() -> None:
    assert not hopeless(10.0, 0.5, 10.5)
    assert hopeless(10.0, 0.5, 10.49)


def test_a_demoted_key_is_behind_all_others_and_keeps_its_order() -> None:
    ten_years_s = 10 * 365.25 * 86_400
    assert policy_key(SANDERLING, 0.0, 0.0, 0.0) + DEMOTED > ten_years_s
    assert ten_years_s + DEMOTED < ten_years_s + 1e-6 + DEMOTED


@pytest.mark.parametrize("policy", [-1, 5, 99])
def test_unknown_policy(policy: int) -> None:
    with pytest.raises(ValueError, match="unknown policy"):
        policy_key(policy, 0.0, 0.0, 0.0)


def test_nan_matters_only_where_it_is_read() -> None:
    with pytest.raises(ValueError, match="NaN"):
        policy_key(EDFQ, 0.0, 0.0, math.nan)
    assert policy_key(FIFO, 1.0, math.nan, math.nan) == 1.0


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fifo", "abcd"),
        ("spr", "bdac"),
        ("tedfq", "bdac"),
        ("edfq", "dcba"),
        ("sanderling", "bdac"),
    ],
)
def test_order_under_each_policy(policy: str, order: str) -> None:
    subtasks = [
        ("a", 0.0, 1.2, 0.9),
        ("b", 0.1, 0.5, 0.5),
        ("c", 0.2, 1.2, 0.4),
        ("d", 0.3, 0.5, 0.3),
    ]
    queue: EdfQueue[str] = EdfQueue()
    for name, *times in subtasks:
        queue.push(policy_key(POLICIES[policy], *times), name)
    assert "".join(queue.pop() for _ in subtasks) == order
