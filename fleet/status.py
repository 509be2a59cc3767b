"""`fleet status`: the state of one IAD, from its operator socket."""

from __future__ import annotations

import sys

from agent.client import NoReplyError, Operator
from agent.sockets.keys import KeyFiles
from agent.wire.codec import HEADER_BYTES, JSON, WireError, encode
from fleet import exits, screen


def run(operator: str, *, timeout_ms: float, as_json: bool, keys: KeyFiles | None = None) -> int:
    """Ask, print the state on stdout, return the exit status."""
    try:
        with Operator(operator, keys) as link:
            status = link.status(timeout_ms)
    except NoReplyError as error:
        return exits.fail(str(error), exits.NO_REPLY)
    except WireError as error:
        return exits.fail(
            f"the reply from {operator} is no IAD's state ({error}); "
            "is this a master's operator socket?",
            exits.NO_REPLY,
        )
    except ValueError as error:  # the address, or the master could not read the request
        return exits.fail(str(error), exits.USAGE)
    if as_json:
        sys.stdout.write(encode(status, JSON)[HEADER_BYTES:].decode() + "\n")
    else:
        screen.show_status(screen.console(), status)
    return exits.DONE
