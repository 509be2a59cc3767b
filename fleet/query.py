"""`fleet query`: one query, its answer, and the exit status that says which kind it was."""

from __future__ import annotations

import sys
from typing import Final

from agent.client import Client, NoReplyError
from agent.sockets.keys import KeyFiles
from agent.wire.base import Form
from agent.wire.codec import HEADER_BYTES, JSON, WireError, encode
from agent.wire.messages import Slo, Window
from fleet import exits, screen

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
    except NoReplyError as error:
        return exits.fail(str(error), exits.NO_REPLY)
    except WireError as error:
        return exits.fail(
            f"the reply from {master} is no answer to a query ({error}); "
            "is this a master's public socket?",
            exits.NO_REPLY,
        )
    except ValueError as error:  # the address, or a key file
        return exits.fail(str(error), exits.USAGE)
    if as_json:
        sys.stdout.write(encode(answer, JSON)[HEADER_BYTES:].decode() + "\n")
    elif answer.status == "refused":
        return exits.fail(f"refused: {answer.message or answer.reason}", EXIT_STATUS["refused"])
    else:
        screen.show_answer(screen.console(), answer, slo)
    return EXIT_STATUS[answer.status]
