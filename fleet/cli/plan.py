"""Click command: `fleet plan`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fleet.cli.lake import TIME, engine_options
from fleet.cli.options import POLICY, SEED, TEXT, Number, Parsed
from fleet.common import exits
from fleet.terminal.installing import require

if TYPE_CHECKING:
    from datetime import datetime

    from agent.wire.base import Policy
    from fleet.inventory.folder import Folder

PICTURES: Final = (".svg", ".png", ".pdf")
FILE: Final[Any] = click.Path(dir_okay=False, path_type=Path)


def _profile(text: str) -> str:
    from fleet.simulation.layout import PROFILE_OF_HOT_SPOT, PROFILE_OF_IAD

    known = dict.fromkeys([*PROFILE_OF_IAD.values(), *PROFILE_OF_HOT_SPOT.values()])
    if text not in known:
        raise ValueError(f"{text!r} is not a profile; write {', '.join(known)}")
    return text


def _hours(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,2})-(\d{1,2})", text)
    if match is None or not (int(match[1]) < 24 and 0 < int(match[2]) <= 24):
        raise ValueError(f"{text!r} are no hours of the day; write 7-19")
    return int(match[1]), int(match[2])


def _sigma() -> float:
    from agent.wire.emulation import SIGMA

    return SIGMA


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix not in PICTURES:
        raise ValueError(f"{text!r} is no picture; write a file that ends in {', '.join(PICTURES)}")
    return path


# Options of --placement, and of both.
OF_PLACEMENT = {"lake", "folder", "spark", "since", "day", "model", "file", "dry"}
OF_BOTH = {"places", "as_json"}


def _require_of(places: bool) -> None:
    """UsageError for what would be passed over: a plan of something else than what is named."""
    context = click.get_current_context()
    for each in context.command.params:
        name = each.name or ""
        typed = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if typed and name not in OF_BOTH and (name in OF_PLACEMENT) != places:
            said = "goes with" if not places else "does not go with"
            what = each.opts[0] if isinstance(each, click.Option) else "CONFIG"
            raise click.UsageError(f"{what} {said} --placement")


@click.command(short_help="Plan capacity: the rate that a fleet sustains, its pods.")
@click.argument("config", type=FILE, required=False)
@click.option("--classes", type=FILE, help="TOML file of classes of queries; else DSSP's Table II.")
@click.option(
    "--records",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="Folder of masters' records, or above them: measured response times. Repeat it for more.",
)
@click.option(
    "--models",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Instead: what `fleet report` made of them, a lake or its folder of models: response "
    "times, and classes unless --classes is given.",
)
@click.option(
    "--target",
    "target_per_s",
    type=Number(0.001, 1e6),
    help="Queries per second to find pods for.",
)
@click.option(
    "--policy",
    "policies",
    type=POLICY,
    multiple=True,
    help="A policy to plan for; repeat it for more. By default all.",
)
@click.option(
    "--pods",
    type=TEXT,
    metavar="[IAD|NODE=]N",
    multiple=True,
    help="Pods that nodes have: all, those of an IAD, or one. By default 1.",
)
@click.option(
    "--profile",
    type=Parsed("profile", _profile),
    help="Hardware of nodes that were not measured. [default: pi3; of the building, its own]",
)
@click.option(
    "--mean-ms",
    type=Number(0.01, 600_000),
    help="Instead: their pods' mean service time, lognormal.",
)
@click.option(
    "--sigma",
    type=Number(0, 3),
    default=_sigma,
    show_default="that of the profiles",
    help="With --mean-ms: σ of its logarithm.",
)
@click.option(
    "--queries",
    type=click.IntRange(2_000, 1_000_000),
    help="Queries of a run. [default: 60000, or what the rarest percentile needs]",
)
@click.option("--seeds", type=click.IntRange(1, 1_000), help="Traces. [default: 10]")
@SEED
@click.option("--quick", is_flag=True, help="Seconds: 3 seeds, 10000 queries.")
@click.option(
    "--picture",
    type=Parsed("file", _picture),
    help="Draw latency against rate, and pods for the target: .svg, .png or .pdf.",
)
@click.option(
    "--placement",
    "places",
    is_flag=True,
    help="Instead: from the lake, which masters topics need and where they should live by day and "
    "by night. With the options below, and --json.",
)
@engine_options
@click.option("--since", type=TIME, help="Of --placement: only records from then on, 7d (ago).")
@click.option(
    "--day",
    type=Parsed("hours", _hours),
    default="7-19",
    show_default=True,
    help="Of --placement: hours of the day, by this machine's clock; the others are the night.",
)
@click.option(
    "--model",
    type=FILE,
    help="Of --placement: latency model; by default trained on the lake's records.",
)
@click.option(
    "--file",
    type=FILE,
    default=Path("placement-plan.json"),
    show_default=True,
    help="Of --placement: its plans go to placement-plan-day.json, placement-plan-night.json.",
)
@click.option("--dry", is_flag=True, help="Of --placement: write no plan.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def plan(
    config: Path | None,
    classes: Path | None,
    records: tuple[Path, ...],
    models: Path | None,
    target_per_s: float | None,
    policies: tuple[Policy, ...],
    pods: tuple[str, ...],
    profile: str | None,
    mean_ms: float | None,
    sigma: float,
    queries: int | None,
    seeds: int | None,
    seed: int,
    quick: bool,
    picture: Path | None,
    places: bool,
    lake: Path | None,
    folder: Folder | None,
    spark: str,
    since: datetime | None,
    day: tuple[int, int],
    model: Path | None,
    file: Path,
    dry: bool,
    as_json: bool,
) -> int:
    """Plan capacity: the highest rate that a fleet sustains, and the pods for a target.

    CONFIG is the configuration file of a master with a fixed pool; without it the shipped
    building is planned. Needs numpy and SciPy, matplotlib for a picture, pyarrow for --models, and
    pyspark for --placement.

    Exit status: 0 done, 1 no policy sustains the target, 2 wrong usage, 5 with --placement: the
    lake has no records of it, 130 interrupted.
    """
    _require_of(places)
    if places:
        require("pyarrow", "pyspark")
        from fleet.placement.loop import command as loop

        return loop.run(
            lake, folder, spark, loop.Options(since, day, model, file, dry=dry, as_json=as_json)
        )
    libraries = ["numpy", "scipy"]
    if picture is not None:
        libraries.append("matplotlib")
    if models is not None:
        libraries.append("pyarrow")
    require(*libraries)
    if picture is not None and not picture.parent.is_dir():
        return exits.fail(f"{picture}: there is no folder {picture.parent}", exits.USAGE)
    from fleet.plan import command
    from fleet.simulation.policies import POLICIES

    return command.run(
        command.Options(
            config=config,
            classes=classes,
            records=records,
            models=models,
            pods=pods,
            profile=profile,
            mean_ms=mean_ms,
            sigma=sigma,
            policies=tuple(each for each in POLICIES if not policies or each in policies),
            target_per_s=target_per_s,
            queries=queries or (10_000 if quick else None),
            seeds=seeds or (3 if quick else 10),
            seed=seed,
            picture=picture,
            as_json=as_json,
        )
    )
