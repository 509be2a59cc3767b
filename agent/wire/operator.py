"""Operator messages: an IAD's operator manages its master's nodes, queues, policy and services."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from agent.wire.about import RoomName
from agent.wire.base import (
    MAX_EVENT_AREAS,
    MAX_TIMEOUT_MS,
    Area,
    Areas,
    Channel,
    Count,
    Identifier,
    Message,
    Name,
    Policy,
    Text,
    WallMs,
    WireStruct,
)
from agent.wire.market import MAX_MEMBERS, Rate, Service, Terms
from agent.wire.messages import Slo
from agent.wire.topics import TopicStatus

MAX_RELAX = 100.0


class StatusRequest(Message, frozen=True, tag="status_request"):
    """Request the state of the IAD."""


class SetPolicy(Message, frozen=True, tag="set_policy"):
    """Order the queues by another policy from now on; waiting subtasks are re-keyed."""

    policy: Policy


class NodeFault(WireStruct, frozen=True):
    """A fault of a sensor's channel, with the `text` of the node's last event about it. `since_ms`
    is by the node's clock; `synchronised`: whether that was synchronised then."""

    sensor: Annotated[str, Meta(max_length=64)]
    channel: Annotated[str, Meta(max_length=32)]
    since_ms: WallMs
    synchronised: bool
    text: Text


class NodeAlert(WireStruct, frozen=True):
    """A raised trigger, with the `text` of its event and the `areas` that it concerns. `since_ms`
    is by the node's clock; `synchronised`: whether that was synchronised then."""

    trigger: Annotated[str, Meta(max_length=64)]
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_EVENT_AREAS)]
    since_ms: WallMs
    synchronised: bool
    text: Text


class NodeStatus(WireStruct, frozen=True, omit_defaults=True):
    """One edge node as its master sees it. `events_waiting` and `events_dropped` are from the
    node's latest message with events; `faults` are those still open by its events, `alerts` the
    triggers still raised. `version` is the release that its agent reported; empty for a checkout,
    and for agents that do not report it."""

    node: Name
    state: Literal["live", "lost", "left"]
    areas: tuple[Area, ...]
    pods: int
    idle_pods: int
    queued: int
    unloaded_samples: int
    emulates: str
    events_waiting: Count = 0
    events_dropped: Count = 0
    faults: tuple[NodeFault, ...] = ()
    alerts: tuple[NodeAlert, ...] = ()
    version: Text = ""


class IadStatus(Message, frozen=True, tag="iad_status", omit_defaults=True):
    """The state of an IAD, for its own operator only. `registered`: whether the DRS has confirmed
    its registration; absent without a market. `version` is the master's release; empty for a
    checkout. `topics` are those that this master keeps, `rooms` the names of its nodes' rooms, by
    area."""

    iad: Name
    policy: Policy
    nodes: tuple[NodeStatus, ...]
    unreachable_iads: tuple[Name, ...]
    open_queries: int
    open_tasks: int
    counters: dict[str, int]
    registered: bool | None = None
    version: Text = ""
    topics: tuple[TopicStatus, ...] = ()
    rooms: dict[Area, RoomName] = field(default_factory=dict)


class OperatorError(Message, frozen=True, tag="operator_error"):
    """The request was invalid or failed."""

    message: Text


# --- services ----------------------------------------------------------------------------------


class CreateService(Message, frozen=True, tag="create_service", omit_defaults=True):
    """Set a service up: discover, negotiate, provision, form the pool.

    `rate_per_s` is λ, the rate of queries over all query schedulers; each may query all areas
    within `slo`. `schedulers` are scheduling-only IADs to include in the pool. `only` restricts the
    sellers. `fewest` is the minimum number of sellers; `relax` bounds how far the terms may be
    relaxed on retry, as a factor of the SLO's latency and a divisor of the rate.
    """

    id: Identifier
    service: Name
    capability: Channel
    areas: Areas
    slo: Slo
    rate_per_s: Rate
    schedulers: Annotated[tuple[Name, ...], Meta(max_length=MAX_MEMBERS)] = ()
    only: Annotated[tuple[Name, ...], Meta(max_length=MAX_MEMBERS)] = ()
    fewest: Annotated[int, Meta(ge=1, le=MAX_MEMBERS)] = 1
    relax: Annotated[float, Meta(ge=1.0, le=MAX_RELAX)] = 1.0
    redundant: bool = False
    timeout_ms: Annotated[float, Meta(gt=0.0, le=MAX_TIMEOUT_MS)] = 10_000.0


class AddIad(Message, frozen=True, tag="add_iad"):
    """Negotiate with one more IAD and add it to a running pool."""

    id: Identifier
    service: Name
    iad: Name


class RemoveIad(Message, frozen=True, tag="remove_iad"):
    """Remove an IAD from a running pool; it finishes its open tasks."""

    id: Identifier
    service: Name
    iad: Name


class DropService(Message, frozen=True, tag="drop_service"):
    """End a service at all members."""

    id: Identifier
    service: Name


class ListServices(Message, frozen=True, tag="list_services"):
    """Request all services of which this master is a member or the owner."""

    id: Identifier


class Step(WireStruct, frozen=True):
    """One step of a service's set-up, for people to read."""

    step: Literal["discover", "negotiate", "provision", "pool"]
    iad: str
    outcome: Text
    terms: Terms | None = None


class ServiceReport(Message, frozen=True, tag="service_report"):
    """The result of a service request; `services` is the current state."""

    id: Identifier
    ok: bool
    services: tuple[Service, ...]
    steps: tuple[Step, ...] = ()
    uncovered: tuple[Area, ...] = ()
    message: Text = ""
    elapsed_ms: float = 0.0


ServiceChange = CreateService | AddIad | RemoveIad | DropService
ServiceRequest = ServiceChange | ListServices
