"""Click command: `fleet watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from fleet.cli.area_option import areas_to
from fleet.cli.connecting import connecting
from fleet.cli.options import (
    CHANNELS,
    CONDITION,
    IDENTIFIER,
    INTERVAL,
    OBJECTIVE,
    SERIES,
    SERVICE,
    TIMEOUT,
    WINDOW,
)

if TYPE_CHECKING:
    from agent.net.keys import KeyFiles

_STYLES: Final = {"--stream": "stream", "--when": "trigger", "--on": "on"}


@click.command()
@connecting("master", several=True)
@areas_to("query")
@click.option(
    "--every",
    "interval_s",
    type=INTERVAL,
    default="5s",
    show_default=True,
    help="Time from one round to the next; with --on the least.",
)
@click.option(
    "--window", "window_s", type=WINDOW, help="Length of each round's window; else as --every."
)
@click.option("--stream", is_flag=True, help="Every reading once: windows lie back to back.")
@click.option(
    "--when", "trigger", type=CONDITION, default="", help="Only rounds in which this trigger holds."
)
@click.option(
    "--on",
    type=CONDITION,
    default="",
    help="A round whenever alerts arrive that match this filter.",
)
@click.option("--for", "lasting_s", type=WINDOW, help="How long; by default until Ctrl-C.")
@click.option("--rounds", type=click.IntRange(min=1), help="End after this many shown rounds.")
@OBJECTIVE
@CHANNELS
@SERIES
@click.option(
    "--timeout",
    "timeout_ms",
    type=TIMEOUT,
    help="Answer timeout of a round; by default 4 times the SLO's latency.",
)
@SERVICE
@click.option(
    "--resume", "watch_id", type=IDENTIFIER, help="Resume this watch, left open by --detach."
)
@click.option("--after", type=click.IntRange(min=0), help="With --resume: last round known.")
@click.option("--detach", is_flag=True, help="Leave the watch open at the end.")
@click.option("--json", "as_json", is_flag=True, help="Print each round as a line of JSON.")
def watch(
    master: str,
    areas: tuple[str, ...],
    interval_s: float,
    window_s: float | None,
    stream: bool,
    trigger: str,
    on: str,
    lasting_s: float | None,
    rounds: int | None,
    slo: Any,
    channels: tuple[str, ...],
    series: bool,
    timeout_ms: float | None,
    service_id: str,
    watch_id: str | None,
    after: int | None,
    detach: bool,
    as_json: bool,
    keys: KeyFiles | list[KeyFiles] | None,
) -> int:
    """Query areas at intervals, and print each round as it arrives.

    A trigger compares channels, or min, max, mean, last or rate of one, with numbers:
    'temperature > 30 or rate(humidity) > 2/min'. A filter is one of `fleet subscribe`:
    'metric = "co2" and value > 1000'.

    Exit status: 0 done; 2 wrong usage, or nobody knows any of the areas or channels; 3 refused; 4
    no reply; 130 interrupted.
    """
    from fleet.query import watch as command

    styles = [name for name, given in _STYLES.items() if click.get_current_context().params[given]]
    if len(styles) > 1:
        raise click.UsageError(f"{' and '.join(styles)} are different styles; choose one")
    if stream and window_s is not None:
        raise click.UsageError("--stream takes all since the round before: leave --window out")
    if (watch_id is None) != (after is None):
        raise click.UsageError("--resume and --after go together")
    return command.run(
        command.Options(
            master=master,
            areas=areas,
            style="streaming" if stream else "event" if trigger or on else "periodic",
            interval_s=interval_s,
            window_s=window_s,
            lasting_s=lasting_s,
            trigger=trigger,
            on=on,
            slo=slo,
            channels=channels,
            form="series" if series else "aggregate",
            timeout_ms=timeout_ms,
            service=service_id,
            rounds=rounds,
            resume=None if watch_id is None or after is None else (watch_id, after),
            detach=detach,
            as_json=as_json,
        ),
        keys,
    )
