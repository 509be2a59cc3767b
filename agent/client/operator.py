"""Client of a master's operator socket."""

from __future__ import annotations

import time
from typing import TypeVar

from agent.client.connection import CONNECT_S, Connection
from agent.net.keys import KeyFiles
from agent.wire.base import Policy
from agent.wire.clones import CloneReport, CloneRequest
from agent.wire.handover import MoveReport, MoveRequest
from agent.wire.market import Service
from agent.wire.operator import (
    IadStatus,
    ListServices,
    OperatorError,
    ServiceReport,
    ServiceRequest,
    SetPolicy,
    StatusRequest,
)
from agent.wire.placement import PlacementReport, PlacementRequest
from agent.wire.topics import TopicReport, TopicRequest
from agent.wire.unions import OperatorReply, OperatorRequest

Report = TypeVar("Report", ServiceReport, TopicReport, MoveReport, PlacementReport, CloneReport)


class Operator(Connection[OperatorReply]):
    """Talks to a master's operator socket; a context manager."""

    def __init__(self, address: str, keys: KeyFiles | None = None) -> None:
        super().__init__(address, OperatorReply, keys)
        self._reply_is_due = False

    def status(self, timeout_ms: float = 2_000.0) -> IadStatus:
        """The state of the IAD; `NoReplyError` if the master stays silent."""
        return self._ask(StatusRequest(), timeout_ms)

    def set_policy(self, policy: Policy, timeout_ms: float = 2_000.0) -> IadStatus:
        """Order the queues by `policy` from now on."""
        return self._ask(SetPolicy(policy), timeout_ms)

    def services(self, timeout_ms: float = 2_000.0) -> tuple[Service, ...]:
        """The services of which the master is a member or the owner."""
        return self.ask_service(ListServices("list"), timeout_ms).services

    def ask_service(self, request: ServiceRequest, timeout_ms: float = 15_000.0) -> ServiceReport:
        """Have a service set up, changed or dropped; the report has the result."""
        return self._ask_report(request, ServiceReport, timeout_ms)

    def ask_topic(self, request: TopicRequest, timeout_ms: float = 15_000.0) -> TopicReport:
        """Have a topic created or removed, or all listed; the report has the result."""
        return self._ask_report(request, TopicReport, timeout_ms)

    def ask_clone(self, request: CloneRequest, timeout_ms: float = 15_000.0) -> CloneReport:
        """Have a device's clone created or removed, or all listed; the report has the result."""
        return self._ask_report(request, CloneReport, timeout_ms)

    def ask_placement(
        self, request: PlacementRequest, timeout_ms: float = 5_000.0
    ) -> PlacementReport:
        """Ask what the master knows of placement, or have it changed; the report has the result."""
        return self._ask_report(request, PlacementReport, timeout_ms)

    def ask_move(self, request: MoveRequest, timeout_ms: float = 15_000.0) -> MoveReport:
        """Have a unit moved to another master, or all moves listed; the report has the result."""
        return self._ask_report(request, MoveReport, timeout_ms)

    def _ask_report(
        self,
        request: ServiceRequest | TopicRequest | MoveRequest | PlacementRequest | CloneRequest,
        wanted: type[Report],
        timeout_ms: float,
    ) -> Report:
        give_up = time.monotonic() + timeout_ms / 1e3
        self._request(request, timeout_ms)
        while True:
            reply = self._reply(max(0.0, (give_up - time.monotonic()) * 1e3))
            if isinstance(reply, wanted) and reply.id == request.id:
                return reply

    def _ask(self, request: StatusRequest | SetPolicy, timeout_ms: float) -> IadStatus:
        self._request(request, timeout_ms)
        reply = self._reply(timeout_ms)
        if not isinstance(reply, IadStatus):
            raise ValueError(f"{self.address} sent something else than its state")
        return reply

    def _request(self, request: OperatorRequest, timeout_ms: float) -> None:
        """Send it. A reply still due to an earlier one would be taken as the reply to this one, as
        states and errors have no id; on a new connection it does not arrive."""
        connect_s = CONNECT_S
        if self._reply_is_due:
            self._open_anew()
            self._reply_is_due = False
            connect_s = timeout_ms / 1e3
        self.send_message(request, connect_s)
        self._reply_is_due = True

    def _reply(self, timeout_ms: float) -> OperatorReply:
        reply = self.receive_message(timeout_ms)
        self._reply_is_due = False
        if isinstance(reply, OperatorError):
            raise ValueError(reply.message)
        return reply
