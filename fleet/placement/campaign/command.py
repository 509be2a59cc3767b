"""`fleet placement measure` and `fleet placement train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct

from _core.colocation.model_file import ModelFile, encode
from fleet.common import exits
from fleet.lake.schema.folder import Lake
from fleet.lake.selection import existing_lake
from fleet.placement.campaign import run as campaign
from fleet.placement.campaign.scores import REPLICATE, Score, models, scores
from fleet.placement.latency import Run
from fleet.placement.training import TrainingError, train
from fleet.terminal import output, screen

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder
    from fleet.placement.campaign.stays import Interval


class Learned(Struct, frozen=True):
    """JSON output of `train`."""

    model: str
    scores: list[Score]


def measure(folder: Path, extent: campaign.Extent, seed: int, *, worker_a_topic: bool) -> int:
    """Run the campaign, telling how far it is; the exit status."""
    terminal = screen.console()
    screen.line(
        terminal,
        f"{extent.runs} configurations on {campaign.cores()} cores, about "
        f"{extent.seconds / 60:.0f} min; nothing else should run here",
    )
    try:
        others = campaign.measure(
            folder,
            extent,
            seed,
            lambda text: screen.line(terminal, text, "dim"),
            worker_a_topic=worker_a_topic,
        )
    except campaign.CampaignError as error:
        return exits.fail(str(error), exits.FAILED)
    if disturbed := [each for each in others if each > campaign.OTHERS]:
        screen.line(
            terminal,
            f"during {len(disturbed)} of {len(others)} configurations other programs took "
            f"{sum(disturbed) / len(disturbed):.1f} cores: these latencies are their doing, too",
            style="yellow",
        )
    screen.line(terminal, f"fleet logs pull --local {quote(str(folder))}")
    screen.line(terminal, f"fleet placement train --lake {quote(str(folder / 'lake'))}")
    return exits.DONE


def train_from(
    named: Path | None,
    folder: Folder | None,
    master: str,
    percentile: float,
    target: Path,
    *,
    as_json: bool,
) -> int:
    """Train the model from a lake's records, write it to `target`, print how good it is."""
    lake = existing_lake(named, folder)
    found = read(lake.root, master, percentile)
    try:
        model, stays = trained(found, percentile)
    except TrainingError as error:
        return exits.fail(f"{lake.root}: {error}; see fleet placement measure", exits.NOTHING)
    scored = scores(stays, models(model.discipline))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(encode(model))
    if as_json:
        output.write_json(Learned(str(target), scored))
        return exits.DONE
    terminal = screen.console()
    screen.line(
        terminal,
        f"{model.runs} runs of {model.discipline}, p{percentile:g}: "
        f"{model.cores:.2f} cores, {'with' if model.trees else 'without'} trees",
    )
    show(scored)
    screen.line(terminal, f"wrote {target}")
    return exits.DONE


def read(folder: Path, master: str, percentile: float) -> list[Interval]:
    """Contents of the lake in `folder`, after taking in what was pulled."""
    from fleet.lake.ingest.stream import ingest
    from fleet.placement.campaign.lake import intervals
    from fleet.spark.session import open_session

    output.say("starting Spark")
    with open_session("fleet placement train", master) as spark:
        lake = Lake(folder)
        ingest(spark, lake)
        return intervals(spark, lake, percentile)


def trained(found: Sequence[Interval], percentile: float) -> tuple[ModelFile, list[list[Run]]]:
    """The model of the discipline that most intervals have, and the runs of its stays.
    TrainingError."""
    from fleet.placement.campaign.stays import runs_of

    kinds = [each.discipline for each in found]
    if not kinds:
        raise TrainingError("no processor has a record")
    discipline = max(sorted(set(kinds)), key=kinds.count)
    quantile = percentile / 100.0
    stays = runs_of([each for each in found if each.discipline == discipline], quantile)
    return train([run for stay in stays for run in stay], discipline, serial=True), stays


def show(scored: Sequence[Score]) -> None:
    """R² of each model by the number of topics."""
    sizes = sorted({each.topics for each in scored})
    table = screen.plain_table("R² of log latency", *(f"k = {size}" for size in sizes))
    for name in dict.fromkeys(each.model for each in scored):
        mine = {each.topics: each for each in scored if each.model == name}
        label = f"{name} (the most that can be known)" if name == REPLICATE else name
        table.add_row(label, *(f"{mine[k].r2:.3f}" if k in mine else "–" for k in sizes))
    screen.show_table(screen.console(), table)
