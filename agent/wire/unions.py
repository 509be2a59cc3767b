"""What may arrive at each socket that speaks to more than edge nodes: one tagged union each."""

from __future__ import annotations

from agent.wire.market import Join, Joined, Leave, Offer, Propose, Release
from agent.wire.messages import Answer, CancelTask, Query, Task, TaskResult
from agent.wire.operator import (
    AddIad,
    CreateService,
    DropService,
    IadStatus,
    ListServices,
    OperatorError,
    RemoveIad,
    ServiceReport,
    SetPolicy,
    StatusRequest,
)
from agent.wire.standing import Acknowledge, Cancel, Round, Watch, Watching

PublicRequest = (
    Query | Task | CancelTask | Watch | Acknowledge | Cancel | Propose | Release | Join | Leave
)
PublicReply = Answer | TaskResult | Watching | Round | Offer | Joined
# What clients, and what other masters, get from it.
ClientReply = Answer | Watching | Round
PeerReply = Answer | TaskResult | Offer | Joined

OperatorRequest = (
    StatusRequest | SetPolicy | CreateService | AddIad | RemoveIad | DropService | ListServices
)
OperatorReply = IadStatus | OperatorError | ServiceReport
