"""`fleet query`: one query, its answer, and the exit status that says which kind it was."""

from __future__ import annotations

from typing import Final

from agent.client import Client, NoReplyError
from agent.sockets.keys import KeyFiles
from agent.wire.base import Form
from agent.wire.messages import Slo, Window
from fleet import exits, replies, screen
from fleet.summary import not_given

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
    form: Form,
    timeout_ms: float | None,
    service: str = "default",
    as_json: bool,
    keys: KeyFiles | None = None,
) -> int:
    """Ask, print the answer on stdout, return the exit status."""
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
    return EXIT_STATUS[answer.status]
