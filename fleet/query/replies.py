"""Output of a master's reply: as wire JSON, or a one-line error."""

from __future__ import annotations

import sys
from typing import Final

from agent.client import NoReplyError, OtherPeerError
from agent.wire.base import TIMEOUT_FACTOR, Message
from agent.wire.codec import WireError, to_json
from agent.wire.messages import Answer, Slo
from fleet.common import exits
from fleet.terminal import output
from fleet.terminal.units import format_limit

# How a master refuses a service that it does not have, and where it names no other.
NO_SERVICE: Final = "no service "
OPERATOR_S: Final = "ask this IAD's operator"
CREATES: Final = "have this IAD's operator create one"  # where there is no service at all
HINT: Final = " with the address of its operator socket, and name one with --service"


def write_json(message: Message) -> None:
    """Print `message` on a line of its own and flush."""
    sys.stdout.write(output.json_text(to_json(output.whole(message))) + "\n")
    sys.stdout.flush()


def waited(answer: Answer, timeout_ms: float | None, slo: Slo) -> str:
    """How long the answer was waited for if that was too short for some areas; otherwise empty."""
    if not any(gap.reason == "timeout" for gap in answer.missing):
        return ""
    limit_ms = timeout_ms or slo.latency_ms * TIMEOUT_FACTOR
    text = f"the answer timeout was {format_limit(limit_ms)}"
    if timeout_ms is None:
        text += f", {TIMEOUT_FACTOR:g} times the SLO's latency"
    # As long as a master waits for nodes that join after its start, or twice what was too short.
    return f"{text}; --timeout {max(10.0, 2 * limit_ms / 1e3):g}s waits longer"


def refused(message: str, master: str) -> int:
    """Print a master's refusal and its reason; returns the exit status. A master does not know who
    asks: for a service that is not there, the option or the command is added, with the operator
    socket of what runs here, the only one known."""
    from fleet.query import running

    if message.startswith(NO_SERVICE):
        if message.endswith(OPERATOR_S):
            operator = running.operator_of(master)
            message += f": `fleet service list --operator {operator or 'ADDRESS'}`"
            message += "" if operator else HINT
        elif message.endswith(CREATES):
            message += ": `fleet service create`"
        else:
            message += "; choose one with --service"
    return exits.fail(f"refused: {message}", exits.REFUSED)


def fail(error: NoReplyError | ValueError, reply: str, socket: str) -> int:
    """Print why there is no reply; returns the exit status. `reply` describes the expected reply,
    `socket` which of the master's sockets was meant."""
    if isinstance(error, NoReplyError):
        said, elsewhere = str(error), _elsewhere(str(error), socket)
        stop = "." if elsewhere and not said.endswith("?") else ""
        return exits.fail(f"{said}{stop}{elsewhere}", exits.NO_REPLY)
    if isinstance(error, OtherPeerError):
        line = (
            f"{error}; this goes to a master's {socket} socket{_that_masters(str(error), socket)}."
        )
        return exits.fail(f"{line}{_elsewhere(str(error), socket)}", exits.NO_REPLY)
    if isinstance(error, WireError):
        line = f"the reply from {reply} ({error}); is this a master's {socket} socket?"
        return exits.fail(line, exits.NO_REPLY)
    return exits.fail(str(error), exits.USAGE)  # the address, a key file, what does not go together


def _that_masters(said: str, socket: str) -> str:
    """The address that was meant, where another of a master's here was given."""
    from fleet.query import running

    for each in [each for fleet in running.found() for each in fleet.masters]:
        given, meant = each.operator, each.master
        if socket == "operator":
            given, meant = meant, given
        if said.startswith(f"{given} "):
            return f", {meant}"
    return ""


def _elsewhere(said: str, socket: str) -> str:
    """Names the fleet that runs here, if it was not the one asked."""
    from fleet.query import running

    fleets = running.found()
    sockets = [
        name for fleet in fleets for each in fleet.masters for name in (each.master, each.operator)
    ]
    if not fleets or any(name in said for name in sockets):
        return ""
    there = fleets[0].address("operator" if socket == "operator" else "master")
    return f" A {fleets[0].called} runs here at {there}."
