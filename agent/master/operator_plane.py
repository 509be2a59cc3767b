"""The operator's socket: state, policy, services of this IAD, for its own operator only."""

from __future__ import annotations

from agent.board import Board
from agent.master.request_plane import RequestPlane
from agent.sockets.router import Router
from agent.wire.messages import Refusal
from agent.wire.operator import OperatorError
from agent.wire.unions import OperatorRequest


class OperatorPlane(RequestPlane):
    """Whatever it refuses, it refuses with a line."""

    def __init__(self, board: Board, router: Router) -> None:
        super().__init__(board, router, OperatorRequest, _refusal)


def _refusal(_sender_id: str, _reason: Refusal, line: str) -> OperatorError:
    return OperatorError(line)
