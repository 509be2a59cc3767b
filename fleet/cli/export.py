"""Click command: `fleet export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.area_option import areas_to
from fleet.cli.connecting import connecting
from fleet.cli.lake import TIME
from fleet.cli.options import CHANNELS, ENDED, INTERVAL, SERIES, SERVICE, SLO, answer_timeout, last

if TYPE_CHECKING:
    from datetime import datetime

    from agent.net.keys import KeyFiles
    from agent.wire.base import QueryForm
    from agent.wire.messages import Window

FILE: Any = click.Path(dir_okay=False, path_type=Path, allow_dash=True)


@click.command(short_help="Write readings of areas to a CSV or Parquet file.")
@connecting("master", several=True)
@areas_to("export")
@last("1h")
@ENDED
@click.option(
    "--since",
    type=TIME,
    help="Instead of --last: start of the window: 24h (ago), 2026-11-21, …T13:00, UTC.",
)
@click.option("--until", type=TIME, help="With --since: end of the window; by default now.")
@CHANNELS
@SERIES
@click.option(
    "--bucket",
    "bucket_s",
    type=INTERVAL,
    help="Instead: minimum, mean and maximum of intervals of this length: 5m.",
)
@click.option("--csv", "csv_to", type=FILE, help="CSV file to write; - is stdout.")
@click.option("--parquet", "parquet_to", type=FILE, help="Parquet file to write instead.")
@click.option(
    "--slo",
    type=SLO,
    default="p99=10s",
    show_default=True,
    help="Tail-latency objective of each of the queries; a loose one lets others go first.",
)
@answer_timeout(" of each")
@SERVICE
def export(
    master: str,
    areas: tuple[str, ...],
    last_s: float,
    ago_s: float,
    since: datetime | None,
    until: datetime | None,
    channels: tuple[str, ...],
    series: bool,
    bucket_s: float | None,
    csv_to: Path | None,
    parquet_to: Path | None,
    slo: Any,
    timeout_ms: float | None,
    service_id: str,
    keys: KeyFiles | list[KeyFiles] | None,
) -> int:
    """Write the readings of areas to a CSV or Parquet file: one row a value.

    A long window is queried in parts: neither a node nor this machine holds all of it. Times
    are UTC, in ISO 8601 and in milliseconds since 1970; `quality` is empty for a good value.

    Exit status: 0 complete, 1 partial or failed, 2 wrong usage, 3 refused, 4 no reply,
    130 interrupted.
    """
    if (csv_to is None) == (parquet_to is None):
        raise click.UsageError("give either --csv FILE or --parquet FILE")
    if bucket_s is not None and not series:
        raise click.UsageError("--aggregate and --bucket exclude each other")
    if str(parquet_to) == "-":
        raise click.UsageError("--parquet writes a file; --csv - writes to stdout")
    if parquet_to is not None:
        from fleet.terminal.installing import require

        require("pyarrow")
    from fleet.query import export as command

    form: QueryForm = "series" if series else "aggregate"
    if bucket_s is not None:
        form = "buckets"
    target = csv_to or parquet_to
    return command.run(
        command.Options(
            master=master,
            areas=areas,
            window=_window(last_s, ago_s, since, until),
            channels=channels,
            form=form,
            bucket_s=bucket_s,
            slo=slo,
            timeout_ms=timeout_ms,
            service=service_id,
            target=None if str(target) == "-" else target,
            kind="csv" if csv_to is not None else "parquet",
        ),
        keys,
    )


def _window(last_s: float, ago_s: float, since: datetime | None, until: datetime | None) -> Window:
    from datetime import UTC, datetime

    from agent.wire.messages import Window

    if since is None:
        if until is not None:
            raise click.UsageError("--until goes with --since")
        return Window(last_s=last_s, ago_s=ago_s)
    start, end = since, until or datetime.now(UTC)
    if until is None and start >= end:
        raise click.UsageError("--since is in the future")
    if start >= end:
        raise click.UsageError("--since must be before --until")
    return Window(start_ms=round(start.timestamp() * 1e3), end_ms=round(end.timestamp() * 1e3))
