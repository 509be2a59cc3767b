"""`fleet lab placement-real`: scores of the latency model on campaigns that were measured here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fleet.placement.campaign.cases import cases
from fleet.placement.campaign.command import read, trained
from fleet.placement.campaign.scores import Score, models, scores
from fleet.terminal import screen
from lab import provenance
from lab.placement.real import results, virtual
from lab.placement.real.results import Campaign

SIMULATED: Final = Path("docs/results/placement-topics/accuracy-poisson.csv")
PERCENTILE: Final = 90.0
# In virtual time: the sets of a campaign on two cores, measured for ten seconds each.
SETS: Final = 60
SIZES: Final = (1, 2, 3, 4, 5, 6)
VIRTUAL_CORES: Final = 2
VIRTUAL_S: Final = 10.0
MAX_LOAD: Final = 0.9
KINDS: Final = {"shared-queue": "one queue", "thread-a-topic": "a worker a topic"}


def run(lakes: Sequence[Path], folder: Path, seed: int) -> int:
    """Score the model of each lake, and write the page; the exit status."""
    terminal = screen.console()
    named = " ".join(f"--lake {lake}" for lake in lakes)
    origin = provenance.now(f"fleet lab placement-real --seed {seed} {named}")
    campaigns = []
    for lake in lakes:
        screen.line(terminal, f"{lake}: reading, training …", "dim")
        found = read(lake, "local[*]", PERCENTILE)
        model, stays = trained(found, PERCENTILE)
        scored: list[Score] = scores(stays, models(model.discipline, seed), seed)
        campaigns.append(Campaign(KINDS[model.discipline], model, stays, scored))
    screen.line(terminal, "the same dispatch in virtual time …", "dim")
    campaigns.append(_virtual(seed))
    for path in results.write(campaigns, origin, folder, SIMULATED):
        screen.line(terminal, f"wrote {path}")
    return 0


def _virtual(seed: int) -> Campaign:
    """Scores without a machine's noise."""
    sets = cases(SETS, SIZES, VIRTUAL_CORES, MAX_LOAD, seed)
    model, stays = trained(virtual.campaign(sets, VIRTUAL_CORES, VIRTUAL_S, seed), PERCENTILE)
    scored = scores(stays, models(model.discipline, seed), seed)
    return Campaign("one queue, virtual time", model, stays, scored)
