"""OctopiA's experiments with real masters on this machine: the runs and their order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.overlay.scot import Scot
from lab.overlay import real_burst, real_tables, topology
from lab.overlay.burst import WANT_BURST
from lab.overlay.real_burst import Load, Result
from lab.overlay.real_rig import Rig
from lab.overlay.real_tables import Row
from lab.overlay.sizes import PUBLISHERS

# Bandwidth of an iLink, headers included: some 30 notifications a second, a third of the fastest
# burst.
I_LINK_BYTES_S: Final = 8_000.0


class Setup(Struct, frozen=True):
    """An overlay, the counts of advertisements and subscriptions, and the bursts."""

    scot: Scot
    advertisements: tuple[int, ...]
    subscriptions: tuple[int, ...]
    publishers: int
    load: Load
    want_burst: float
    rates_per_s: tuple[float, ...]
    rounds: int
    i_link_bytes_s: float | None = I_LINK_BYTES_S
    idle_s: float = real_burst.IDLE_S


class Found(Struct, frozen=True):
    """The results; `memory_bytes` of a master's own, and the share of a processor that all use
    while idle, with all subscriptions of the burst; `why_not_short` is empty if iLinks were
    limited."""

    setup: Setup
    tables: list[Row]
    bursts: list[Result]
    memory_bytes: float
    idle: float
    why_not_short: str


def paper() -> Setup:
    """The paper's overlay and counts; the burst's rates divided by 1,000, as is the base load, and
    a quarter of the subscribers: the capacity of two processors."""
    return Setup(
        scot=topology.paper(),
        advertisements=(100, 200, 300, 400, 500),
        subscriptions=(500, 1_000, 2_000, 3_000, 4_000, 5_000),
        publishers=PUBLISHERS,
        load=Load(PUBLISHERS, 500, base_per_s=6.0, in_burst=600, before_s=3.0, after_s=3.0),
        want_burst=WANT_BURST,
        rates_per_s=(60.0, 80.0, 100.0),
        rounds=3,
    )


def quick() -> Setup:
    """Two vertices times two clusters, for some seconds."""
    return Setup(
        scot=topology.spread(2, 2),
        advertisements=(6,),
        subscriptions=(10, 30),
        publishers=6,
        load=Load(6, 40, base_per_s=5.0, in_burst=60, before_s=0.5, after_s=0.5),
        want_burst=0.1,
        rates_per_s=(60.0,),
        rounds=1,
    )


def measure(setup: Setup, seed: int, say: Callable[[str], None]) -> Found:
    """Measure everything; files are in a temporary folder. MastersError."""
    with tempfile.TemporaryDirectory(prefix="overlay-", dir=_disk()) as name:
        rig = Rig(setup.scot, Path(name), setup.i_link_bytes_s)
        if rig.why_not_short:
            say(f"iLinks are not short: {rig.why_not_short}")
        tables, bursts = [], []
        for count in setup.advertisements:
            tables.append(real_tables.advertisements(rig, count, seed))
            say(f"{tables[-1].count} advertisements")
        for row in real_tables.subscriptions(rig, setup.publishers, setup.subscriptions, seed):
            tables.append(row)
            say(f"{row.count} subscriptions")
        idle = real_burst.Idle(setup.idle_s)
        for result in real_burst.measure(
            rig, setup.load, setup.want_burst, setup.rates_per_s, setup.rounds, seed, idle
        ):
            bursts.append(result)
            say(f"{result.case}")
        return Found(setup, tables, bursts, idle.memory_bytes, idle.cores, rig.why_not_short)


def failures(found: Found) -> list[str]:
    """Deviations from the required behaviour, a line each."""
    told = [
        f"{row.count} {row.experiment}: the tables of {row.differing} of {row.brokers} masters are "
        "not those in virtual time"
        for row in found.tables
        if row.differing
    ]
    told += [
        f"{each.case.routing} at {each.case.burst_per_s:g}/s: of {each.due} deliveries "
        f"{each.missing} did not come, {each.repeated} came again, {each.unwanted} were not wanted"
        for each in found.bursts
        if each.missing or each.repeated or each.unwanted
    ]
    return told


def of(results: Sequence[Result], rate: float, routing: str) -> list[Result]:
    """The results of that case, by round."""
    return [
        each for each in results if (each.case.burst_per_s, each.case.routing) == (rate, routing)
    ]


def _disk() -> str:
    folder = Path("var").absolute()
    folder.mkdir(exist_ok=True)
    return str(folder)
