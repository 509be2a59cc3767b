"""`fleet status --operator`: the status of one IAD, from its operator socket."""

from __future__ import annotations

from agent.client import NoReplyError, Operator
from agent.net.keys import KeyFiles
from fleet.common import exits
from fleet.query import replies
from fleet.query.status_screen import show_status
from fleet.terminal import screen


def run(operator: str, *, timeout_ms: float, as_json: bool, keys: KeyFiles | None = None) -> int:
    """Ask, print the state on stdout, return the exit status."""
    try:
        with Operator(operator, keys) as link:
            status = link.status(timeout_ms)
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{operator} is no IAD's state", "operator")
    if as_json:
        replies.write_json(status)
    else:
        show_status(screen.console(), status)
    return exits.DONE
