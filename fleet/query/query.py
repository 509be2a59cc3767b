"""`fleet query`: sends one query, prints the answer, sets the exit status by its completeness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent.client import Client, NoReplyError
from agent.net.keys import KeyFiles
from agent.wire.base import QueryForm
from agent.wire.messages import Slo, Window
from fleet.common import exits
from fleet.query import replies, words
from fleet.terminal import screen
from fleet.terminal.buckets_screen import show_buckets

EXIT_STATUS: Final = {
    "complete": exits.DONE,
    "partial": exits.FAILED,
    "refused": exits.REFUSED,
}


def run(
    master: str,
    areas: tuple[str, ...],
    window: Window,
    slo: Slo,
    *,
    channels: tuple[str, ...],
    form: QueryForm,
    timeout_ms: float | None,
    service: str = "default",
    from_clone: bool = False,
    explain: bool = False,
    buckets: int | None = None,
    as_json: bool,
    keys: KeyFiles | Sequence[KeyFiles] | None = None,
) -> int:
    """Send the query and print the answer on stdout; returns the exit status. With `explain`, the
    tasks and their budgets, too. A name that nobody knows is wrong usage, whatever else came."""
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
                buckets=buckets,
            )
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{master} is no answer to a query", "public")
    if answer.status == "refused" and not as_json:
        message = answer.message or answer.reason or ""
        # The objective may be the default, which nobody typed.
        hint = "; choose one with --slo" if answer.reason == "infeasible" else ""
        return replies.refused(f"{message}{hint}", master)
    there, wrong = words.apart(answer, slo, channels, service)
    if as_json:
        replies.write_json(answer)
    elif there is not None:
        if buckets is not None:
            show_buckets(screen.console(), there)
        screen.show_answer(screen.console(), there, slo, explain=explain)
    # Output for programs is the answer alone.
    told = screen.console(stderr=as_json)
    if there is not None:
        for text in words.remarks(there, channels, window.length_s):
            screen.line(told, text, style="yellow")
        if text := replies.waited(there, timeout_ms, slo):
            screen.line(told, text, style="yellow")
    if wrong:
        return exits.fail("; ".join(wrong), exits.USAGE)
    return EXIT_STATUS[answer.status]
