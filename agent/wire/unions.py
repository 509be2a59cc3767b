"""What may arrive at each socket that speaks to more than edge nodes: one tagged union each."""

from __future__ import annotations

from agent.wire.market import MarketReply, MarketRequest
from agent.wire.messages import Answer, CancelTask, Query, Task, TaskResult
from agent.wire.operator import (
    IadStatus,
    OperatorError,
    ServiceReport,
    ServiceRequest,
    SetPolicy,
    StatusRequest,
)
from agent.wire.standing import Round, StandingRequest, Watching

PublicRequest = Query | Task | CancelTask | StandingRequest | MarketRequest
PublicReply = Answer | TaskResult | Watching | Round | MarketReply
# What clients, and what other masters, get from it.
ClientReply = Answer | Watching | Round
PeerReply = Answer | TaskResult | MarketReply

OperatorRequest = StatusRequest | SetPolicy | ServiceRequest
OperatorReply = IadStatus | OperatorError | ServiceReport
