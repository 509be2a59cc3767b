"""`fleet plan --placement`: what the logs say about where everything should live."""

from __future__ import annotations

from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from _core.colocation.model import Colocation
from _core.colocation.model_file import decode, encode
from fleet.common import exits
from fleet.lake.schema.folder import Lake
from fleet.lake.selection import existing_lake
from fleet.placement import plans
from fleet.placement.loop import screen as shown
from fleet.placement.loop.learned import model_file, read_learned
from fleet.placement.loop.planning import Outlook, outlooks, periods
from fleet.placement.model_file import read_model
from fleet.terminal import output, screen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fleet.inventory.folder import Folder

PERCENTILE: Final = 90.0
# That of the masters' configuration, whose records do not tell theirs.
MOVE_COST: Final = 0.01


class Found(Struct, frozen=True):
    """JSON output."""

    periods: list[Outlook]


class Options(Struct, frozen=True):
    """Source of the planning data, and target of plans: `<file>-day.json`, `<file>-night.json`."""

    since: datetime | None
    day: tuple[int, int]
    model: Path | None
    file: Path
    dry: bool
    as_json: bool


def run(lake: Path | None, folder: Folder | None, master: str, options: Options) -> int:
    """Learn, plan day and night, print both and write their plans; the exit status."""
    at = existing_lake(lake, folder)
    from fleet.lake.ingest.stream import ingest
    from fleet.placement.loop.jobs import learn
    from fleet.spark.session import open_session

    given = None if options.model is None else read_model(options.model)[1]
    output.say("starting Spark")
    with open_session("fleet plan --placement", master) as spark:
        ingest(spark, at)
        learn(spark, at, options.since)
        model = given or trained(spark, at)
    learned = read_learned(at)
    day, night = periods(*options.day, datetime.now().astimezone())
    found = outlooks(learned, (day, night), model, MOVE_COST)
    if not found:
        return exits.fail(
            f"{at.root}: no two masters have told each other of placement in their records; "
            "see docs/run/placement.md",
            exits.NOTHING,
        )
    several = len({each.masters for each in found}) > 1
    files = [
        None if options.dry else _written(each, options.file, several=several) for each in found
    ]
    if options.as_json:
        output.write_json(Found(found))
        return exits.DONE
    for each, file in zip(found, files, strict=True):
        shown.show(screen.console(), each, file)
    return exits.DONE


def trained(spark: SparkSession, lake: Lake) -> Colocation | None:
    """The latency model of what masters recorded, which is kept beside the other models; None if
    there are too few runs, or the libraries are missing."""
    from fleet.placement.campaign import command as campaign
    from fleet.placement.campaign.lake import intervals
    from fleet.placement.training import TrainingError

    if any(find_spec(each) is None for each in ("numpy", "scipy", "sklearn")):
        return None
    try:
        model, _ = campaign.trained(intervals(spark, lake, PERCENTILE), PERCENTILE)
    except TrainingError:
        return None
    file = model_file(lake)
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(encode(model))
    part.replace(file)
    return model.model()


def kept_model(lake: Lake) -> Colocation | None:
    """The latency model that was kept last."""
    try:
        return decode(model_file(lake).read_bytes())[1]
    except (OSError, ValueError):
        return None


def _written(found: Outlook, file: Path, *, several: bool) -> Path | None:
    if found.plan is None or not found.plan.moves:
        return None
    group = f"-{found.masters[0]}" if several else ""
    path = file.with_name(f"{file.stem}{group}-{found.period}{file.suffix or '.json'}")
    plans.write(path, found.plan)
    return path
