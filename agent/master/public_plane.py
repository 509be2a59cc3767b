"""The public socket: requests of clients and of other masters."""

from __future__ import annotations

from typing import Final

from agent.board import Board
from agent.master.request_plane import RequestPlane
from agent.sockets.router import Router
from agent.wire.messages import Answer, Coverage, Refusal
from agent.wire.unions import PublicRequest

# Requests taken in one turn. One is taken from each connection before the next one of any: with
# one a turn a neighbour's sign of life would wait for a turn of each of thousands of clients.
TURN: Final = 16


class PublicPlane(RequestPlane):
    """Whatever it refuses, it refuses with an answer."""

    def __init__(self, board: Board, router: Router) -> None:
        super().__init__(board, router, PublicRequest, _refusal, most=TURN)


def _refusal(sender_id: str, reason: Refusal, line: str) -> Answer:
    return Answer(
        id=sender_id,
        status="refused",
        elapsed_ms=0.0,
        slo_met=False,
        coverage=Coverage(0, 0),
        reason=reason,
        message=line,
    )
