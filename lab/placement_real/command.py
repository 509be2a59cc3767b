"""`fleet lab placement-real`: scores of the latency model on campaigns that were measured here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fleet.lake.schema.folder import Lake
from fleet.placement.campaign.command import read, trained
from fleet.placement.campaign.scores import Score, models, scores
from fleet.terminal import screen
from lab import provenance
from lab.placement_real import results
from lab.placement_real.results import Campaign

PERCENTILE: Final = 90.0
KINDS: Final = {"shared-queue": "one queue", "thread-a-topic": "a worker a topic"}


def run(lakes: Sequence[Path], folder: Path, seed: int) -> int:
    """Score the model of each lake, and write the page; the exit status."""
    terminal = screen.console()
    named = " ".join(f"--lake {lake}" for lake in lakes)
    origin = provenance.now(f"fleet lab placement-real --seed {seed} {named}")
    campaigns = []
    for lake in lakes:
        screen.line(terminal, f"{lake}: reading, training …", "dim")
        found = read(Lake(lake), "local[*]", PERCENTILE)
        model, stays = trained(found, PERCENTILE)
        scored: list[Score] = scores(stays, models(model.discipline, seed), seed)
        campaigns.append(Campaign(KINDS[model.discipline], model, stays, scored))
    for path in results.write(campaigns, origin, folder):
        screen.line(terminal, f"wrote {path}")
    return 0
