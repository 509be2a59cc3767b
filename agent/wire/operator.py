"""Between an IAD's own operator and its master: nodes, queues, policy, pods, services."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from agent.wire.base import (
    LONGEST_TIMEOUT_MS,
    MAX_EVENT_AREAS,
    Area,
    Areas,
    Channel,
    Count,
    Identifier,
    Message,
    Name,
    Part,
    Policy,
    Text,
    WallMs,
)
from agent.wire.market import MAX_MEMBERS, Rate, Service, Terms
from agent.wire.messages import Slo


class StatusRequest(Message, frozen=True, tag="status_request"):
    """Ask the master how its IAD is."""


class SetPolicy(Message, frozen=True, tag="set_policy"):
    """Order the queues by another policy from now on; what waits is re-keyed."""

    policy: Policy


class NodeFault(Part, frozen=True):
    """A fault of a sensor's channel, as the node's last event about it says in `text`. `since_ms`
    is by the node's clock, which was `synchronised` then or not."""

    sensor: Annotated[str, Meta(max_length=64)]
    channel: Annotated[str, Meta(max_length=32)]
    since_ms: WallMs
    synchronised: bool
    text: Text


class NodeAlert(Part, frozen=True):
    """A trigger that is raised, as its event says in `text`; `areas` are those that it is about.
    `since_ms` is by the node's clock, which was `synchronised` then or not."""

    trigger: Annotated[str, Meta(max_length=64)]
    areas: Annotated[tuple[Area, ...], Meta(max_length=MAX_EVENT_AREAS)]
    since_ms: WallMs
    synchronised: bool
    text: Text


class NodeStatus(Part, frozen=True, omit_defaults=True):
    """One edge node as its master sees it. `events_waiting` and `events_dropped` are what the node
    said of its events when some came last; `faults` are those that its events leave open, `alerts`
    the triggers that they leave raised.
    `version` is the release that its agent said it runs; empty from a checkout, and of agents that
    do not say."""

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
    it; absent without a market. `version` is the release that the master runs; empty from a
    checkout."""

    iad: Name
    policy: Policy
    nodes: tuple[NodeStatus, ...]
    unreachable_iads: tuple[Name, ...]
    open_queries: int
    open_tasks: int
    counters: dict[str, int]
    registered: bool | None = None
    version: Text = ""


class OperatorError(Message, frozen=True, tag="operator_error"):
    """The request could not be read or done."""

    message: Text


# --- services ----------------------------------------------------------------------------------


class CreateService(Message, frozen=True, tag="create_service", omit_defaults=True):
    """Set a service up: discover, negotiate, provision, form the pool.

    `rate_per_s` is λ, the rate of queries over all query schedulers; each may ask all areas within
    `slo`. `schedulers` are scheduling-only IADs to take into the pool. `only` limits the sellers.
    `fewest` is how many sellers will do; `relax` how much longer (as a factor of the SLO's latency)
    and how much rarer (as a divisor of the rate) the terms may become on retry.
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
    relax: Annotated[float, Meta(ge=1.0, le=100.0)] = 1.0
    redundant: bool = False
    timeout_ms: Annotated[float, Meta(gt=0.0, le=LONGEST_TIMEOUT_MS)] = 10_000.0


class AddIad(Message, frozen=True, tag="add_iad"):
    """Negotiate with one more IAD and take it into a running pool."""

    id: Identifier
    service: Name
    iad: Name


class RemoveIad(Message, frozen=True, tag="remove_iad"):
    """Take an IAD out of a running pool; what it has open it finishes."""

    id: Identifier
    service: Name
    iad: Name


class DropService(Message, frozen=True, tag="drop_service"):
    """End a service at all members."""

    id: Identifier
    service: Name


class ListServices(Message, frozen=True, tag="list_services"):
    """All services that this master is a member or the owner of."""

    id: Identifier


class Step(Part, frozen=True):
    """One thing that happened while a service was set up, for people to read."""

    step: Literal["discover", "negotiate", "provision", "pool"]
    iad: str
    outcome: Text
    terms: Terms | None = None


class ServiceReport(Message, frozen=True, tag="service_report"):
    """How a service request ended; `services` are as they are now."""

    id: Identifier
    ok: bool
    services: tuple[Service, ...]
    steps: tuple[Step, ...] = ()
    uncovered: tuple[Area, ...] = ()
    message: Text = ""
    elapsed_ms: float = 0.0


ServiceChange = CreateService | AddIad | RemoveIad | DropService
ServiceRequest = ServiceChange | ListServices
