"""`fleet lab placement-packed`: packings of topics, each of their sets run on a real master.

Two cores carry one master, so the sets are run one after another; those that planners share are run
once. The model that the planners ask is trained on an earlier campaign and on sets that are run
first, with loads around what a master carries. Then the same sets run with the same arrivals in
virtual time, and on the simulated broker. Last, both repeat the whole experiment: training,
packing, runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import psutil
from msgspec import Struct
from msgspec.structs import replace

from _core.colocation.model import Colocation
from agent.client import Client, Operator
from agent.wire.messages import Slo
from fleet.common import exits
from fleet.placement.campaign.run import (
    OTHERS,
    CampaignError,
    Taken,
    cores,
    publish_to,
    running_master,
)
from fleet.placement.latency import Run, Topic, candidates
from fleet.placement.training import TrainingError, train
from fleet.terminal import screen
from fleet.testbed.run_folder import run_folder
from lab import pages, provenance
from lab.placement.real import packed_tables, results, virtual
from lab.placement.real.outcomes import QUANTILE, TAU_S, Outcome, outcome
from lab.placement.real.packed_tables import (
    AGAIN,
    PREDICTED,
    REAL,
    SIMULATED,
    VIRTUAL,
    Found,
    Ran,
    World,
)
from lab.placement.real.packings import case_of, distinct, packings, request, training
from lab.placement.topics.broker import Broker

NAME: Final = "placement-packed"
KIND: Final = "one queue"
OBJECTIVE: Final = Slo(100.0 * QUANTILE, 1e3 * TAU_S)
# Of the time, for the sets that the model is trained on.
TRAINING_SHARE: Final = 0.25
# Of this many sets one is run again with other arrivals: nothing predicts better than that.
ONE_AGAIN_IN: Final = 4
# How long what was sent may still be processed.
DRAIN_S: Final = 2.0
# What a set takes besides, before it is known.
BESIDES_S: Final = 0.5
SHORTEST_S: Final = 1.0

# Runs the topics of a set, whose name decides its arrivals.
Way = Callable[[str, Sequence[Topic]], list[Outcome]]


class Setting(Struct, frozen=True):
    """So many `requests` of each number of `topics`, so many sets for `training`, and the minutes
    that all runs on the real master take together."""

    topics: tuple[int, ...] = (12, 18, 24)
    requests: int = 2
    training: int = 30
    minutes: float = 11.0


QUICK: Final = Setting((8,), 1, 4, 0.25)


class Master:
    """A real master with a worker a core, to which sets of topics are given one after another."""

    def __init__(
        self, client: Client, operator: Operator, process: psutil.Process, seed: int
    ) -> None:
        self._client, self._operator, self._process = client, operator, process
        self._seed = seed
        self.others: list[float] = []  # cores that other programs took during each set
        self.late_s = 0.0  # of the publisher, at most

    def run(self, name: str, topics: Sequence[Topic], seconds: float) -> tuple[list[Outcome], Run]:
        """What became of each topic, and the same as a run that models are trained on."""
        before = Taken.now(self._process)
        found = publish_to(
            self._client, self._operator, name, case_of(topics), seconds,
            arrivals_of(self._seed, name), OBJECTIVE, DRAIN_S,
        )  # fmt: skip
        self.others.append(Taken.now(self._process).others_since(before))
        self.late_s = max(self.late_s, found.late_s)
        outcomes = [
            outcome(sent, each.processed, each.late, _seconds(each.latency_ms))
            for each, sent in zip(found.statuses, found.sent, strict=True)
        ]
        seen = [
            Topic((each.cpu_ms or 0.0) / 1e3, sent / seconds, quantile=QUANTILE)
            for each, sent in zip(found.statuses, found.sent, strict=True)
        ]
        return outcomes, Run(tuple(seen), tuple([each.p90_s for each in outcomes]))


@contextmanager
def _running(directory: Path, seed: int, record_s: float) -> Iterator[Master]:
    with (
        run_folder(directory) as place,
        running_master(place, 0, record_s) as (public, asked, process),
        Client(public) as client,
        Operator(asked) as operator,
    ):
        yield Master(client, operator, process, seed)


def arrivals_of(seed: int, name: str) -> Random:
    """What draws the arrivals of a set, the same ones for a real master and in virtual time."""
    return Random(f"{seed} {name}")


def measure(
    setting: Setting, seed: int, known: Sequence[Run], directory: Path, say: Callable[[str], None]
) -> Found:
    """Train, pack, and run the sets. CampaignError, TrainingError."""
    end_s = time.monotonic() + 60.0 * setting.minutes
    draw = Random(seed)
    learned = training(setting.training, cores(), draw)
    requests = [request(n, draw) for n in setting.topics for _ in range(setting.requests)]
    share_s = 60.0 * setting.minutes * TRAINING_SHARE / setting.training
    seconds = max(SHORTEST_S, share_s - BESIDES_S)
    with _running(directory, seed, 60.0) as master:
        # Workers start, and import what they need.
        master.run("first", learned[0], SHORTEST_S)
        runs = []
        began_s = time.monotonic()
        for number, topics in enumerate(learned, 1):
            outcomes, run = master.run(f"learned{number}", topics, seconds)
            runs.append(run)
            say(f"to learn from, {number} of {len(learned)}: {_told(topics, outcomes)}")
        besides_s = (time.monotonic() - began_s) / len(learned) - seconds
        whole = _whole(runs)
        trained = train([*known, *whole], "shared-queue", serial=True)
        planned = packings(trained.model(), requests, say)
        sets = distinct(planned)
        again = sets[::ONE_AGAIN_IN]
        each_s = (end_s - time.monotonic()) / (len(sets) + len(again))
        seconds = max(SHORTEST_S, each_s - besides_s)
        say(f"{len(sets)} sets, {len(again)} of them twice, {seconds:.1f} s each")
        found = Found(trained, len(whole), requests, planned, {}, seconds, master.others)
        for number, at in enumerate(sets, 1):
            topics = [requests[at[0]][chosen] for chosen in at[1]]
            outcomes, _ = master.run(f"set{number}", topics, seconds)
            found.ran[at] = Ran(topics, {REAL: outcomes})
            say(f"{number} of {len(sets)}: {_told(topics, outcomes)}")
            if at in again:
                repeated, _ = master.run(f"again{number}", topics, seconds)
                found.ran[at].outcomes[AGAIN] = repeated
                say(f"the same again: {_told(topics, repeated)}")
    found.late_s = master.late_s
    elsewhere: dict[str, Way] = {
        VIRTUAL: lambda name, topics: virtual.run(
            case_of(topics), cores(), seconds, DRAIN_S, TAU_S, arrivals_of(seed, name)
        ),
        SIMULATED: lambda name, topics: _simulated(topics, arrivals_of(seed, name)),
    }
    model = trained.model()
    for number, ran in enumerate(found.ran.values(), 1):
        for way, run_there in elsewhere.items():
            ran.outcomes[way] = run_there(f"set{number}", ran.topics)
        ran.outcomes[PREDICTED] = _predicted(model, ran.topics)
    taught = [*(run.topics for run in known), *learned]
    for way, run_there in elsewhere.items():
        say(f"{way}, by a model that is trained there …")
        found.worlds[way] = world(run_there, taught, requests, say, serial=way == VIRTUAL)
    return found


def world(
    run_there: Way,
    taught: Sequence[Sequence[Topic]],
    requests: Sequence[list[Topic]],
    say: Callable[[str], None],
    *,
    serial: bool,
) -> World:
    """The whole experiment without a real master: train on the sets `taught`, pack, and run."""
    runs = []
    for number, topics in enumerate(taught):
        judged = [replace(topic, objective_s=TAU_S) for topic in topics]
        outcomes = run_there(f"learned{number}", judged)
        runs.append(Run(tuple(judged), tuple([each.p90_s for each in outcomes])))
    model = train(_whole(runs), "shared-queue", serial=serial).model()
    planned = packings(model, requests, say)
    return World(
        planned,
        {
            at: run_there(f"set{at}", [requests[at[0]][chosen] for chosen in at[1]])
            for at in distinct(planned)
        },
    )


def _whole(runs: Iterable[Run]) -> list[Run]:
    """A topic of which nothing was processed has no latency to learn from."""
    return [run for run in runs if all(map(isfinite, run.latency_s))]


def _simulated(topics: Sequence[Topic], draw: Random) -> list[Outcome]:
    """On the broker of `fleet lab placement-topics`, with one queue and as many cores as here."""
    import numpy as np

    broker = Broker(shared=True, cores=cores())
    latencies = broker.run(topics, np.random.default_rng(draw.getrandbits(64)))
    return [
        Outcome(float(np.quantile(each, QUANTILE)), len(each), int((each > TAU_S).sum()))
        for each in latencies
    ]


def _predicted(model: Colocation, topics: Sequence[Topic]) -> list[Outcome]:
    asked = candidates(model, topics)
    return [Outcome(each) for each in asked.latencies(range(len(topics)))]


def command(
    setting: Setting, words: str, seed: int, campaign: Path, directory: Path, folder: Path
) -> int:
    """Run it all, and write the page; the exit status. `words` are the command's options."""
    terminal = screen.console()
    origin = provenance.now(f"fleet lab {NAME}{words} --seed {seed}")
    began_s = time.monotonic()

    def say(text: str) -> None:
        screen.line(terminal, text, "dim")

    try:
        known = results.read_runs(campaign, KIND)
        found = measure(setting, seed, known, directory, say)
    except (CampaignError, TrainingError) as error:
        return exits.fail(str(error), exits.FAILED)
    shown = packed_tables.tables(found, seed)
    for table in shown.values():
        table.show(terminal)
    data = pages.write_csv(
        folder / f"{NAME}.csv", packed_tables.HEADINGS, packed_tables.rows(found)
    )
    disturbed = sum(each > OTHERS for each in found.others)
    more = {
        "duration": f"{(time.monotonic() - began_s) / 60:.1f} min",
        "sets of topics": f"{len(found.ran)} of {found.seconds:.1f} s each",
        "other programs": f"{median(found.others):.2f} cores at the median; over {OTHERS:g} during "
        f"{disturbed} of {len(found.others)} sets",
        "publisher": f"{1e3 * found.late_s:.0f} ms late at most",
        "model": f"{len(known)} runs of {campaign}, {found.learned} of sets that were run first",
        "data": f"[{data.name}]({data.name}): a row for each topic of each set",
    }
    for path in (data, pages.write(folder, NAME, shown, origin, more)):
        screen.line(terminal, f"wrote {path}")
    return exits.DONE


def _told(topics: Sequence[Topic], outcomes: Sequence[Outcome]) -> str:
    told = ", ".join(f"{1e3 * each.p90_s:.0f}" for each in outcomes)
    return f"load {sum(topic.load for topic in topics):.2f}, p90 {told} ms"


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1e3
