"""`fleet query`: sends one query, prints the answer, sets the exit status by its completeness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agent.client import Client, NoReplyError
from agent.net.keys import KeyFiles
from agent.wire.base import Form
from agent.wire.messages import Answer, Slo, Window
from fleet.common import exits
from fleet.query import replies
from fleet.terminal import screen
from fleet.terminal.summary import held_of, not_given
from fleet.terminal.units import format_duration

EXIT_STATUS: Final = {
    "complete": exits.DONE,
    "partial": exits.FAILED,
    "refused": exits.REFUSED,
}


def _words(answer: Answer, window: Window, timeout_ms: float | None, slo: Slo) -> Iterator[str]:
    """Lines that explain what the answer itself leaves open."""
    if (held := held_of(answer, window.length_s)) is not None:
        area, held_s, areas = held
        least, asked = format_duration(round(held_s)), format_duration(window.length_s)
        yield (
            f"{area} has readings of {least} only, of the {asked} asked: its node holds no more"
            if areas == 1
            else f"{areas} areas have readings of less than the {asked} asked, {area} of {least} "
            "only: their nodes hold no more"
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
    as_json: bool,
    keys: KeyFiles | None = None,
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
            )
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{master} is no answer to a query", "public")
    if as_json:
        replies.write_json(answer)
    elif answer.status == "refused":
        return replies.refused(answer.message or answer.reason or "", master)
    else:
        out = screen.console()
        screen.show_answer(out, answer, slo)
        if lacking := not_given(answer, channels):
            screen.line(out, f"no area that answered gives {', '.join(lacking)}", style="yellow")
        for text in _words(answer, window, timeout_ms, slo):
            screen.line(out, text, style="yellow")
    return EXIT_STATUS[answer.status]
