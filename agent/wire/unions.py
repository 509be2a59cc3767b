"""Tagged unions of the messages that each socket accepts, except the node socket's."""

from __future__ import annotations

from typing import Final

from agent.wire.clones import CloneAnswer, CloneQuestion, CloneReport, CloneRequest
from agent.wire.codec import MAX_BULK_VALUES, MAX_RESULT_VALUES, MESSAGEPACK
from agent.wire.handover import Handover, MoveReport, MoveRequest
from agent.wire.leases import LeaseTold
from agent.wire.market import MarketReply, MarketRequest
from agent.wire.membership import Members
from agent.wire.messages import Answer, CancelTask, Query, Task, TaskResult
from agent.wire.operator import (
    IadStatus,
    OperatorError,
    ServiceReport,
    ServiceRequest,
    SetPolicy,
    StatusRequest,
)
from agent.wire.overlay_links import OverlayRefused, OverlayRequest
from agent.wire.placement import (
    AskGrant,
    GrantTold,
    PlacementEcho,
    PlacementFacts,
    PlacementReport,
    PlacementRequest,
    SameFacts,
)
from agent.wire.push import PushRequest, SentPush
from agent.wire.topics import Publish, Published, TopicReport, TopicRequest
from agent.wire.watches import Round, Watching, WatchRequest

# Requests between masters, and an operator's, that may have as many values as fit into a frame.
PUBLIC_BULK: Final = {
    (MESSAGEPACK, kind): MAX_BULK_VALUES for kind in ("join", "overlay_frame", "placement_facts")
}
OPERATOR_BULK: Final = {(MESSAGEPACK, "apply_plan"): MAX_BULK_VALUES}
# Replies of other masters. They are asked in MessagePack, and reply in it.
PEER_BULK: Final = {
    (MESSAGEPACK, "task_result"): MAX_RESULT_VALUES,
    (MESSAGEPACK, "grant_told"): MAX_BULK_VALUES,
}

PublicRequest = (
    Query
    | Task
    | CancelTask
    | WatchRequest
    | PushRequest
    | MarketRequest
    | OverlayRequest
    | Publish
    | Handover
    | PlacementFacts
    | AskGrant
    | CloneQuestion
    | SameFacts
    | Members
    | LeaseTold
)
PublicReply = (
    Answer
    | TaskResult
    | Watching
    | Round
    | SentPush
    | MarketReply
    | OverlayRefused
    | Published
    | PlacementEcho
    | GrantTold
    | Handover
    | CloneAnswer
    | Members
)
# Replies to clients, to other masters and to overlay brokers.
ClientReply = Answer | Watching | Round | SentPush | Published
PeerReply = (
    Answer | TaskResult | MarketReply | PlacementEcho | GrantTold | Handover | CloneAnswer | Members
)
NeighbourReply = Answer | OverlayRefused

OperatorRequest = (
    StatusRequest
    | SetPolicy
    | ServiceRequest
    | TopicRequest
    | MoveRequest
    | PlacementRequest
    | CloneRequest
)
OperatorReply = (
    IadStatus
    | OperatorError
    | ServiceReport
    | TopicReport
    | MoveReport
    | PlacementReport
    | CloneReport
)
