"""Operator plane: state, policy and services of this IAD, for its own operator only."""

from __future__ import annotations

from typing import Final

from agent.master.requests.request_plane import RequestPlane
from agent.net.router import Router
from agent.runtime.reactor import Reactor
from agent.wire.messages import Refusal
from agent.wire.operator import OperatorError
from agent.wire.unions import OPERATOR_BULK, OperatorRequest

# Connections of operators and their tools; requests of all take turns by message.
MAX_CONNECTIONS: Final = 256


class OperatorPlane(RequestPlane):
    """A refusal carries a line that says why."""

    def __init__(self, reactor: Reactor, router: Router) -> None:
        super().__init__(reactor, router, OperatorRequest, _refusal, bulk=OPERATOR_BULK)


def _refusal(_sender_id: str, _reason: Refusal, line: str) -> OperatorError:
    return OperatorError(line)
