"""Contenders of `fleet lab simulate`: the policies, and sanderling with more or less
information."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

from _core.queue.policy import DEMOTING
from agent.wire.base import Policy
from fleet.simulation.pictures import COLOURS
from fleet.simulation.policies import POLICIES, policy_name

Demotion = Literal["never", "node", "task", "query"]
"""Whom it concerns that a subtask is hopeless (`_core.simulator`)."""


class Contender(Struct, frozen=True):
    """A policy and the information that it has.

    `known`: the share of the execution time that a request's size determines. `trained_as`: the
    contender whose training run gives the advances of classes; None: no advances. `online`: learnt
    during the measured queries instead.
    """

    policy: Policy
    title: str
    known: float = 0.0
    demotion: Demotion = "node"
    trained_as: str | None = None
    online: bool = False

    @property
    def one_clock(self) -> bool:
        """Whether nodes interact, which requires the slower simulator."""
        return self.online or self.demotion in ("task", "query")


OWN: Final = ("sanderling", "sanderling-sizes")
_ONE_KEY: Final = tuple(policy for policy in POLICIES if policy not in DEMOTING)
_SANDERLING: Final[Policy] = "sanderling"

CONTENDERS: Final[dict[str, Contender]] = {
    **{policy: Contender(policy, policy_name(policy)) for policy in _ONE_KEY},
    "sanderling": Contender(_SANDERLING, "Sanderling", trained_as="sanderling"),
    "sanderling-sizes": Contender(
        _SANDERLING, "Sanderling, sizes known", known=1.0, trained_as="sanderling-sizes"
    ),
    # Sanderling's parts.
    "demotion": Contender(_SANDERLING, "demotion alone"),
    "balance": Contender(_SANDERLING, "balance alone", demotion="never", trained_as="balance"),
    "online": Contender(_SANDERLING, "both, learning all the time", demotion="task", online=True),
    "half": Contender(_SANDERLING, "both", known=0.5, trained_as="half"),
    "sizes-demotion": Contender(_SANDERLING, "demotion alone", known=1.0),
    "sizes-task": Contender(
        _SANDERLING, "both, by task", known=1.0, demotion="task", trained_as="sanderling-sizes"
    ),
    "sizes-query": Contender(
        _SANDERLING, "both, by query", known=1.0, demotion="query", trained_as="sanderling-sizes"
    ),
    "sizes-online": Contender(
        _SANDERLING, "both, learning all the time", known=1.0, demotion="task", online=True
    ),
}
# In the order of results.
MAIN: Final = (*_ONE_KEY, *OWN)
PARTS: Final = tuple(name for name in CONTENDERS if name not in MAIN)


def title(name: str) -> str:
    """``T-EDFQ``, ``Sanderling, sizes known``."""
    return CONTENDERS[name].title


def colour(name: str) -> str:
    """Colour of a main contender, the same in every picture."""
    return COLOURS[MAIN.index(name) % len(COLOURS)]


def trainings(names: Iterable[str]) -> tuple[str, ...]:
    """The contenders whose training runs these need."""
    needed = {CONTENDERS[name].trained_as for name in names}
    return tuple(name for name in CONTENDERS if name in needed)
