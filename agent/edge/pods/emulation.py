"""Hardware emulation: the service time that a node adds to each subtask."""

from __future__ import annotations

from collections.abc import Callable

from agent.wire.config import ConfigError


def emulation_of(profile: str, node: str) -> Callable[[int | None, float], float] | None:
    """The service time to emulate on `node` as a function of a subtask's seed and the length of its
    window, all in seconds; None for none.

    ConfigError for an unknown profile.
    """
    if not profile:
        return None
    from agent.wire.emulation import PROFILES, service_time_s  # most nodes emulate nothing
    from sensors.base import nearest

    if profile not in PROFILES:
        raise ConfigError(
            f"pods.emulate: unknown hardware profile {profile}; {nearest(profile, PROFILES)}"
        )
    return lambda seed, window_s: service_time_s(PROFILES[profile], node, seed, window_s)
