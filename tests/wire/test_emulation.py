"""Emulated hardware: means, what the window says, and draws that repeat."""

from __future__ import annotations

import math
from statistics import fmean, pstdev

import pytest

from agent.wire.emulation import BY_SIZE, MAX_WINDOW_S, PROFILES, SIZED, service_time_s

BLIND = [name for name in PROFILES if not name.endswith(SIZED)]
N = 4_000


def test_every_profile_is_there_with_and_without_sizes() -> None:
    assert BLIND == ["pi4", "pi4-powersave", "pi3", "pi3-boxed"]
    assert set(PROFILES) == {*BLIND, *(f"{name}{SIZED}" for name in BLIND)}
    for name in BLIND:
        assert PROFILES[f"{name}{SIZED}"].mean_s == PROFILES[name].mean_s


@pytest.mark.parametrize("name", PROFILES)
def test_the_mean_over_windows_of_uniform_length_is_the_profiles(name: str) -> None:
    profile = PROFILES[name]
    windows_s = [(i + 0.5) / N * MAX_WINDOW_S for i in range(N)]
    assert fmean(map(profile.expected_s, windows_s)) == pytest.approx(profile.mean_s)
    drawn = [service_time_s(profile, "n", i, window_s) for i, window_s in enumerate(windows_s)]
    assert fmean(drawn) == pytest.approx(profile.mean_s, rel=4 * pstdev(drawn) / N**0.5 / 0.06)


@pytest.mark.parametrize("name", BLIND)
def test_only_a_sized_profile_looks_at_the_window(name: str) -> None:
    blind, sized = PROFILES[name], PROFILES[f"{name}{SIZED}"]
    assert service_time_s(blind, "n", 7, 1.0) == service_time_s(blind, "n", 7, 9_000.0)
    half = service_time_s(sized, "n", 7, MAX_WINDOW_S / 2)
    whole = service_time_s(sized, "n", 7, MAX_WINDOW_S)
    assert whole / half == pytest.approx(1 + BY_SIZE)
    assert service_time_s(sized, "n", 7, 2 * MAX_WINDOW_S) == whole
    assert sized.expected_s(0.0) == pytest.approx((1 - BY_SIZE) * blind.mean_s)


def test_the_same_seed_at_the_same_node_draws_the_same() -> None:
    profile = PROFILES["pi3"]
    assert service_time_s(profile, "n", 1, 60.0) == service_time_s(profile, "n", 1, 60.0)
    assert service_time_s(profile, "n", 1, 60.0) != service_time_s(profile, "m", 1, 60.0)
    assert service_time_s(profile, "n", None, 60.0) != service_time_s(profile, "n", None, 60.0)
    logs = [math.log(service_time_s(profile, "n", seed, 60.0)) for seed in range(N)]
    assert pstdev(logs) == pytest.approx(profile.sigma, rel=0.05)
