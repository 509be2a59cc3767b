"""Queueing policies: display order and names."""

from __future__ import annotations

from typing import Final, get_args

from agent.wire.base import Policy
from fleet.simulation.pictures import COLOURS

POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
_NAMES: Final = {"fifo": "FIFO", "spr": "SPR", "tedfq": "T-EDFQ", "edfq": "EDFQ"}


def policy_name(policy: Policy) -> str:
    """The name as in papers: ``T-EDFQ``; this project's own policies are words: ``Sanderling``."""
    return _NAMES.get(policy, policy.capitalize())


def policy_colour(policy: Policy) -> str:
    """The same in every picture."""
    return COLOURS[POLICIES.index(policy) % len(COLOURS)]
