"""`fleet lab placement-capacity`: how many topics of a mix a real master carries within their
objective, with one queue and with a worker a topic. Brokers are inversely proportional to that.

A master carries a mix if no topic misses. The most topics are found by bisection, with the same
arrivals both ways. What is run before that, while workers start, does not count.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from agent.client import Client, Operator
from agent.wire.messages import Slo
from agent.wire.topics import TopicStatus
from fleet.common import exits
from fleet.placement.campaign.cases import SERVICES_MS, Case, Load
from fleet.placement.campaign.run import CampaignError, cores, publish_to, running_master
from fleet.terminal import screen
from fleet.terminal.tables import Table
from fleet.testbed.run_folder import run_folder
from lab import pages, provenance

NAME: Final = "placement-capacity"
ONE_QUEUE: Final = "one queue"
A_WORKER: Final = "a worker a topic"
PERCENTILE: Final = 90.0
# What the search begins with, as shares of all cores.
LEAST_LOAD: Final = 0.25
MOST_LOAD: Final = 1.2
# Of a topic: one message is at work, and one may have come this moment.
UNDER_WAY: Final = 2
PROBE: Final = ("way", "topics", "load_cores", "missed", "worst_p90_ms", "publisher_late_ms")


class Setting(Struct, frozen=True):
    """Each topic takes this share of a core, and is to be within `within_ms` at its 90th
    percentile; a mix is run for `seconds`."""

    share: float = 0.06
    within_ms: float = 1_000.0
    seconds: float = 20.0

    @property
    def range(self) -> tuple[int, int]:
        """The fewest and the most topics that are tried."""
        whole = cores() / self.share
        return max(1, int(LEAST_LOAD * whole)), max(2, int(MOST_LOAD * whole))

    def mix(self, topics: int) -> Case:
        """Topics of short and of long messages, in turn."""
        each = itertools.islice(itertools.cycle(SERVICES_MS), topics)
        return tuple([Load(cpu_ms, self.share * 1e3 / cpu_ms) for cpu_ms in each])


class Probe(Struct, frozen=True):
    """A mix that was run, and how many of its topics missed their objective."""

    way: str
    topics: int
    load: float
    missed: int
    worst_ms: float
    late_s: float

    @property
    def row(self) -> tuple[object, ...]:
        """By `PROBE`."""
        return (
            self.way, self.topics, round(self.load, 3), self.missed, round(self.worst_ms, 1),
            round(self.late_s * 1e3, 1),
        )  # fmt: skip


def command(setting: Setting, seed: int, directory: Path, results: Path) -> int:
    """Measure both ways, and write the page; the exit status."""
    terminal = screen.console()
    words = (
        f"--share {setting.share:g} --within {setting.within_ms:g} --seconds {setting.seconds:g}"
    )
    origin = provenance.now(f"fleet lab {NAME} {words} --seed {seed}")
    probes: list[Probe] = []

    def told(probe: Probe) -> None:
        probes.append(probe)
        text = f"{probe.way}: {probe.topics} topics, load {probe.load:.2f}, {probe.missed} missed"
        screen.line(terminal, text, "dim")

    try:
        carried = {
            way: measure(directory / way.replace(" ", "-"), way, setting, seed, told)
            for way in (ONE_QUEUE, A_WORKER)
        }
    except CampaignError as error:
        return exits.fail(str(error), exits.FAILED)
    shown = table(carried, probes)
    shown.show(terminal)
    data = pages.write_csv(results / f"{NAME}.csv", PROBE, (each.row for each in probes))
    more = {
        "load average just after": f"{provenance.load_average():.2f}",
        "data": f"[{data.name}]({data.name}): a row for each mix that was run",
    }
    for path in (data, pages.write(results, NAME, {"capacity": shown}, origin, more)):
        screen.line(terminal, f"wrote {path}")
    return exits.DONE


def measure(
    folder: Path, way: str, setting: Setting, seed: int, told: Callable[[Probe], None]
) -> int:
    """The most topics that a master carries this way; `told` gets each mix that was run."""
    low, high = setting.range
    with (
        run_folder(folder) as place,
        running_master(place, high if way == A_WORKER else 0, setting.seconds) as (
            public,
            asked,
            _,
        ),
        Client(public) as client,
        Operator(asked) as operator,
    ):

        def tried(topics: int, name: str) -> Probe:
            case, slo = setting.mix(topics), Slo(PERCENTILE, setting.within_ms)
            found = publish_to(client, operator, name, case, setting.seconds, Random(seed), slo)
            return probe_of(way, case, found.statuses, found.late_s, setting.within_ms)

        def carries(topics: int) -> bool:
            probe = tried(topics, f"of{topics}")
            told(probe)
            return not probe.missed

        tried(low, "first")
        return most(carries, low, high)


def most(carries: Callable[[int], bool], low: int, high: int) -> int:
    """The largest number from `low` to `high` that is carried, 0 if none is, where fewer are
    carried whenever more are. O(log(high − low)) calls."""
    found = 0
    while low <= high:
        middle = (low + high) // 2
        if carries(middle):
            found, low = middle, middle + 1
        else:
            high = middle - 1
    return found


def misses(status: TopicStatus, load: Load, within_ms: float) -> bool:
    """Whether a topic missed its objective: by what was processed, or since so much waits that its
    next message will (Little's law). The latter has not been counted in the former."""
    behind = status.received - status.processed
    late = status.latency_ms is None or status.latency_ms > within_ms
    return late or behind > load.rate * within_ms / 1e3 + UNDER_WAY


def probe_of(
    way: str, case: Case, statuses: Sequence[TopicStatus], late_s: float, within_ms: float
) -> Probe:
    """What was found of a mix."""
    pairs = zip(statuses, case, strict=True)
    missed = sum(misses(status, load, within_ms) for status, load in pairs)
    worst_ms = max(each.latency_ms or 0.0 for each in statuses)
    return Probe(way, len(case), sum(each.cores for each in case), missed, worst_ms, late_s)


def table(carried: dict[str, int], probes: Sequence[Probe]) -> Table:
    """What each way carries, and how many brokers it needs where a worker a topic needs 100."""
    rows = []
    for way, topics in carried.items():
        found = next((each for each in probes if (each.way, each.topics) == (way, topics)), None)
        shown = (f"{found.load:.2f}", f"{found.worst_ms:.0f}") if found else ("–", "–")
        brokers = f"{100 * carried[A_WORKER] / topics:.0f}" if topics else "–"
        rows.append([way, str(topics), *shown, brokers])
    headings = ("way", "topics", "load, cores", "worst p90, ms", "brokers")
    return Table("Topics that one master carries", headings, rows)
