"""Plan of faults: processes, times and kinds, drawn from a seed; pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from fleet.testbed.page import GATEWAY

Kind = Literal[
    "kill", "freeze", "restart", "kill worker", "damage", "full disk", "slow disk", "clock step",
    "partition", "loss", "resets",
]  # fmt: skip
# A process is away meanwhile, and until it has started again.
AWAY: Final[frozenset[Kind]] = frozenset({"kill", "freeze", "restart", "damage"})
STARTS: Final[frozenset[Kind]] = frozenset({"kill", "restart", "damage"})
# Other processes may not reach it meanwhile.
APART: Final[frozenset[Kind]] = AWAY | {"partition", "loss", "resets"}
# A link between masters bears 3.5 s of silence and a lease 3 s; some faults last longer.
DURATIONS_S: Final = (0.1, 1.0, 5.0)
# From its start until an agent on a busy machine has joined.
START_S: Final = 5.0
STEPS_S: Final = (-3_600, -30, -1, 1, 30, 3_600)
SYNC_MS: Final = (50, 500)


class Fault(Struct, frozen=True, omit_defaults=True):
    """What happens to its targets; seconds from the start of the history.

    `kill`: SIGKILL, and started again; `restart`: SIGTERM to all, and started in this order;
    `damage`: killed, a file of it damaged, started; `freeze`: SIGSTOP, and continued; `kill
    worker`: SIGKILL to a process that a master started; `full disk`: no file grows; `slow disk`:
    each fsync takes `amount` ms; `clock step`: the wall clock is `amount` s off, and set back;
    `partition`: nothing passes between the targets and all others; `loss`: some of it is lost;
    `resets`: connections there are reset, and again within some of what passes.
    """

    kind: Kind
    targets: tuple[str, ...]
    from_s: float
    until_s: float
    amount: int = 0

    def __str__(self) -> str:
        amount = f" {self.amount:+}" if self.amount else ""
        return (
            f"{self.from_s:.1f}–{self.until_s:.1f} s: {self.kind}{amount} {', '.join(self.targets)}"
        )


def plan(
    seed: int, masters: Sequence[str], nodes: Sequence[str], others: Sequence[str], seconds: float
) -> list[Fault]:
    """The faults of a history, in order of their beginnings. Some overlap: several of different
    kinds may hurt one process, but one that is away or starts is hurt no further. `others` are the
    registration service and the gateway, where they run."""
    draw = random.Random(seed)
    faults: list[Fault] = []
    at_s = draw.uniform(0.5, 1.5)
    while at_s < seconds:
        kind: Kind = draw.choice(
            ("kill", "kill", "kill", "freeze", "freeze", "restart", "kill worker", "damage",
             "full disk", "slow disk", "clock step", "partition", "partition", "loss",
             "resets", "resets")
        )  # fmt: skip
        lasting_s = draw.choice(DURATIONS_S) * draw.uniform(0.8, 1.2)
        targets = _targets(draw, kind, masters, nodes, others)
        free = [each for each in targets if not _busy(faults, each, at_s, kind)]
        if free:
            amount = draw.choice(STEPS_S) if kind == "clock step" else 0
            amount = draw.choice(SYNC_MS) if kind == "slow disk" else amount
            until_s = round(at_s + lasting_s, 2)
            faults.append(Fault(kind, tuple(free), round(at_s, 2), until_s, amount))
        # Half of them begin while the one before lasts.
        at_s += draw.uniform(0.2, 2.0) + lasting_s * draw.choice((0.0, 1.0))
    return faults


def _targets(
    draw: random.Random,
    kind: Kind,
    masters: Sequence[str],
    nodes: Sequence[str],
    others: Sequence[str],
) -> tuple[str, ...]:
    """One process, or two at once; mostly masters. All kinds of processes start in any order."""
    among = [*masters, *masters, *nodes, *others]
    match kind:
        case "restart":
            everybody = [*masters, *nodes, *others]
            return tuple(draw.sample(everybody, draw.randint(2, len(everybody))))
        case "kill worker":
            return (draw.choice(masters),)
        case "damage":
            return (draw.choice(nodes),)
        case "partition" | "loss" | "resets":  # the gateway is a client, and clients reach masters
            among = [each for each in among if each != GATEWAY]
        case "full disk" | "slow disk" | "clock step":
            among = [each for each in among if each not in others]
    count = 2 if draw.random() < 0.3 else 1
    return tuple(dict.fromkeys(draw.choice(among) for _ in range(count)))


def _busy(faults: Sequence[Fault], name: str, at_s: float, kind: Kind) -> bool:
    """Whether a fault of the same kind lasts, or the process is away or starts. Without a disk no
    agent starts (systemd would start it again), and that is not to be tried."""
    for each in faults:
        if name not in each.targets:
            continue
        over_s = each.until_s + (START_S if each.kind in STARTS else 0.0)
        if each.kind in AWAY | {kind} and at_s < over_s:
            return True
        if each.kind == "full disk" and kind in AWAY and at_s < over_s:
            return True
    return False
