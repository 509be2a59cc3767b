"""Plan of faults: processes, times and kinds, drawn from a seed; pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

Kind = Literal["kill", "freeze", "full disk"]
# A link between masters bears 3.5 s of silence and a lease 3 s; some faults last longer.
DURATIONS_S: Final = (0.1, 1.0, 5.0)
# From its start until an agent on a busy machine has joined.
START_S: Final = 5.0


class Fault(Struct, frozen=True):
    """Processes that are killed with SIGKILL and started again, stopped with SIGSTOP and continued,
    or whose disk takes nothing for a while; seconds from the start of the history."""

    kind: Kind
    targets: tuple[str, ...]
    from_s: float
    until_s: float

    def __str__(self) -> str:
        return f"{self.from_s:.1f}–{self.until_s:.1f} s: {self.kind} {', '.join(self.targets)}"


def plan(seed: int, masters: Sequence[str], nodes: Sequence[str], seconds: float) -> list[Fault]:
    """The faults of a history, in order, with one under way at a time: one process, or two
    at once; mostly masters."""
    draw = random.Random(seed)
    faults: list[Fault] = []
    at_s = draw.uniform(0.5, 1.5)
    while at_s < seconds:
        count = 2 if draw.random() < 0.3 else 1
        among = [*masters, *masters, *nodes]
        targets = tuple(dict.fromkeys(draw.choice(among) for _ in range(count)))
        lasting_s = draw.choice(DURATIONS_S) * draw.uniform(0.8, 1.2)
        kind: Kind = draw.choice(("kill", "kill", "freeze", "full disk"))
        starting = {
            name
            for each in faults
            if each.kind == "kill" and at_s < each.until_s + START_S
            for name in each.targets
        }
        if kind == "full disk" and not starting.isdisjoint(targets):
            kind = "freeze"  # without a disk no agent starts: systemd would start it again
        faults.append(Fault(kind, targets, round(at_s, 2), round(at_s + lasting_s, 2)))
        at_s += lasting_s + draw.uniform(0.2, 2.0)
    return faults
