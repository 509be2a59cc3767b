"""`fleet query`: sends one query, prints the answer, sets the exit status by its completeness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from agent.client import Client, NoReplyError
from agent.net.keys import KeyFiles
from agent.wire.base import Form
from agent.wire.messages import Answer, Slo, Window
from fleet.common import exits
from fleet.query import replies
from fleet.terminal import screen
from fleet.terminal.summary import held_of, longest_pause, not_given
from fleet.terminal.units import format_duration

EXIT_STATUS: Final = {
    "complete": exits.DONE,
    "partial": exits.FAILED,
    "refused": exits.REFUSED,
}


def _words(
    answer: Answer,
    window: Window,
    channels: tuple[str, ...],
    timeout_ms: float | None,
    slo: Slo,
) -> Iterator[str]:
    """Lines that explain what the answer itself leaves open."""
    if lacking := not_given(answer, channels):
        yield f"no area that answered gives {', '.join(lacking)}"
    if (held := held_of(answer)) is not None:
        area, held_s, areas = held
        least, asked = format_duration(round(held_s)), format_duration(window.length_s)
        yield (
            f"{area} has readings of {least} only, of the {asked} asked: its node holds no more"
            if areas == 1
            else f"{areas} areas have readings of less than the {asked} asked, {area} of {least} "
            "only: their nodes hold no more"
        )
    if (pause := longest_pause(answer, window.length_s)) is not None:
        area, pause_s, areas = pause
        longest = format_duration(round(pause_s))
        yield (
            f"{area} has no readings for {longest} in between"
            if areas == 1
            else f"{areas} areas have no readings for a while in between, {area} for {longest}"
        )
    if waited := replies.waited(answer, timeout_ms, slo):
        yield waited


def run(
    master: str,
    areas: tuple[str, ...],
    window: Window,
    slo: Slo,
    *,
    channels: tuple[str, ...],
    form: Form,
    timeout_ms: float | None,
    service: str = "default",
    from_clone: bool = False,
    as_json: bool,
    keys: KeyFiles | Sequence[KeyFiles] | None = None,
) -> int:
    """Send the query and print the answer on stdout; returns the exit status."""
    try:
        with Client(master, keys) as client:
            answer = client.query(
                areas,
                window=window,
                percentile=slo.percentile,
                latency_ms=slo.latency_ms,
                channels=channels,
                form=form,
                timeout_ms=timeout_ms,
                service=service,
                label="fleet query",
                stale_ok=from_clone,
            )
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{master} is no answer to a query", "public")
    if answer.status == "refused" and not as_json:
        return replies.refused(answer.message or answer.reason or "", master)
    if as_json:
        replies.write_json(answer)
    else:
        screen.show_answer(screen.console(), answer, slo)
    # Output for programs is the answer alone.
    told = screen.console(stderr=as_json)
    for text in _words(answer, window, channels, timeout_ms, slo):
        screen.line(told, text, style="yellow")
    return EXIT_STATUS[answer.status]
