"""The endpoints of /api/v1 that show what the gateway knows."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from agent.client import Operator
from agent.gateway.feed import frames
from agent.gateway.feed.alert_log import MAX_READ, is_alert
from agent.gateway.feed.deadlines import Kind
from agent.gateway.feed.frames import AlertItem, GapItem, Source, alert_item
from agent.gateway.feed.raised import RaisedNow
from agent.gateway.feed.rooms import Room
from agent.gateway.http.operators import WAIT_MS, Told, no_operator
from agent.gateway.http.problems import Problem
from agent.gateway.http.requests import (
    LOOKS_S,
    Asked,
    Endpoint,
    Parameter,
    Reply,
    bad,
    json_reply,
)
from agent.gateway.http.stream import open_stream
from agent.gateway.outputs.base import OutputState
from agent.gateway.tokens import Role
from agent.wire.about import ServiceInfo
from agent.wire.areas import covers
from agent.wire.codec import HEADER_BYTES, encode
from agent.wire.codec import JSON as WIRE_JSON
from agent.wire.operator import IadStatus
from agent.wire.placement import PlacementReport, ShowPlacement

PAGE: Final = 500
MAX_PAGE: Final = 10_000
MAX_AREAS: Final = 1_000  # of a page, whatever is asked: each takes the loop some 3 µs
MAX_DOCUMENT: Final = 16 << 20
NO_RUNS: Final = b'{"real":[],"virtual":[]}'

AREA = Parameter("area", "Only this area, and those below it.")
LIMIT = Parameter("limit", "At most so many.", {"type": "integer", "minimum": 1})
CURSOR = Parameter("cursor", "Where the page before ended.")
ALERTS: Final = "alerts"
ALL: Final = "all"
OF = Parameter(
    "of", "`alerts` without messages of topics, or all (default).",
    {"type": "string", "enum": [ALERTS, ALL]},
)  # fmt: skip


class SessionInfo(Struct, frozen=True):
    """The sender of a request, and its subject. `iads` are those that the last question of each
    kind went to."""

    role: Role
    name: str
    gateway: str
    version: str
    iad: str
    iads: list[str]
    every_s: float
    operator: bool


class ChannelItem(Struct, frozen=True):
    """A channel of an area."""

    name: str
    unit: str


class AreaItem(Struct, frozen=True):
    """An area."""

    area: str
    name: str
    channels: list[ChannelItem]


class AreasPage(Struct, frozen=True):
    """A page of areas, sorted."""

    areas: list[AreaItem]
    cursor: str | None


class ServicesList(Struct, frozen=True):
    """Services that may be asked, by name."""

    services: list[ServiceInfo]


class Now(Struct, frozen=True):
    """All rooms as they show now."""

    time_ms: int
    source: Source
    rooms: list[Room]
    missing: list[GapItem]


class AlertsPage(Struct, frozen=True):
    """A page of the log of alerts, the newest first."""

    alerts: list[AlertItem]
    cursor: str | None


class RaisedList(Struct, frozen=True):
    """Alerts that are raised now, the longest first."""

    raised: list[RaisedNow]


class NodeQueue(Struct, frozen=True):
    """A node's queue, for operators only. `iad` is its domain."""

    node: str
    state: str
    queued: int
    pods: int
    idle_pods: int
    iad: str


class DeadlinesPage(Struct, frozen=True):
    """Answers that the gateway saw, by label and service, and nodes' queues; `silent` are the IADs
    whose masters did not tell theirs."""

    kinds: list[Kind]
    nodes: list[NodeQueue]
    silent: list[str]


class IadTold(Struct, frozen=True):
    """An IAD's state as its master tells its operator, or in its place why there is none. `iad` is
    the address of the operator socket until that was heard, `nodes` how many nodes it had when it
    was heard last."""

    iad: str
    status: IadStatus | None
    problem: str
    nodes: int | None


class FleetPage(Struct, frozen=True):
    """The states of all IADs whose operator sockets the gateway knows."""

    iads: list[IadTold]


class OutputsPage(Struct, frozen=True):
    """How outputs are doing."""

    outputs: list[OutputState]


async def session(asked: Asked) -> Reply:
    """The session of the caller."""
    gateway, caller = asked.gateway, asked.caller
    assert caller is not None
    kinds = gateway.hub.deadlines.kinds()
    # Of each kind: the newest of all may be about one room.
    newest = [seen for kind in kinds for seen in kind.answers[-1:]]
    iads = sorted({task.iad for seen in newest for task in seen.tasks})
    return json_reply(
        SessionInfo(
            caller.role,
            caller.name,
            gateway.config.gateway.name,
            gateway.version,
            iads[0] if iads else "",
            iads,
            gateway.config.console.every_s,
            bool(gateway.operators),
        )
    )


async def areas(asked: Asked) -> Reply:
    """All areas, page by page."""
    limit, cursor = asked.number("limit", PAGE, 1, MAX_PAGE), asked.area("cursor")
    await asked.gateway.hub.look_now(LOOKS_S)
    hub = asked.gateway.hub
    rooms = hub.rooms
    start = bisect_right(rooms.areas, cursor)
    end = start + min(limit, MAX_AREAS)
    page = [
        AreaItem(
            area,
            hub.name_of(area),
            [ChannelItem(*each) for each in sorted(rooms.units(area).items())],
        )
        for area in rooms.areas[start:end]
    ]
    return json_reply(AreasPage(page, page[-1].area if end < len(rooms.areas) else None))


async def services(asked: Asked) -> Reply:
    """Services that may be asked; none are known while the master is away from the start on."""
    await asked.gateway.hub.look_now(LOOKS_S)
    found = sorted(asked.gateway.hub.services, key=lambda each: each.name)
    return json_reply(ServicesList(found))


async def now(asked: Asked) -> Reply:
    """All rooms, or those of an area."""
    area = asked.area()
    await asked.gateway.hub.look_now(LOOKS_S)
    hub = asked.gateway.hub
    if not area and hub.heard.is_set():
        rooms = cast("list[Room]", await hub.rooms_json())  # what stands in JSON already
        return json_reply(Now(hub.now_ms(), hub.source, rooms, frames.gaps_of(hub.rooms)))
    shown = [room for room in hub.rooms_heard() if not area or covers(area, room.area)]
    gaps = [gap for gap in frames.gaps_of(hub.rooms) if not area or covers(area, gap.area)]
    if area and not shown and not gaps:
        raise Problem(404, "no_area", f"no area {area} is known")
    return json_reply(Now(hub.now_ms(), hub.source, shown, gaps))


async def alerts(asked: Asked) -> Reply:
    """The log of alerts, page by page."""
    limit = asked.number("limit", 100, 1, 1_000)
    cursor, of = asked.text("cursor"), asked.text("of", ALL)
    if of not in (ALERTS, ALL):
        raise bad(f"of = {of[:40]!r} is neither {ALERTS} nor {ALL}")
    before = asked.number("cursor", 0, 1, 2**53 - 1) if cursor else None
    log = asked.gateway.alerts
    # Among messages of topics alerts may be rare: a page has those of so many entries.
    most = limit if of == ALL else MAX_READ
    read = await asyncio.to_thread(log.before, before, most)
    found = [entry for entry in read if of == ALL or is_alert(entry)][:limit]
    is_rest = not read or (len(read) < most and read[-1].position <= log.oldest)
    last = found[-1] if len(found) == limit else None if is_rest else read[-1]
    more = None if last is None else str(last.position)
    return json_reply(AlertsPage([alert_item(entry) for entry in found], more))


async def raised(asked: Asked) -> Reply:
    """Alerts that are raised now."""
    return json_reply(RaisedList(asked.gateway.hub.raised()))


async def deadlines(asked: Asked) -> Reply:
    """Answers that the gateway saw, and for operators the queues of nodes."""
    assert asked.caller is not None
    told: list[Told] = []
    if asked.caller.may("operator"):
        told = await asked.gateway.operators.statuses(asked.caller.key)
    nodes = [
        NodeQueue(node.node, node.state, node.queued, node.pods, node.idle_pods, each.iad)
        for each in told
        if each.status is not None
        for node in each.status.nodes
    ]
    silent = [each.iad for each in told if each.status is None]
    return json_reply(DeadlinesPage(asked.gateway.hub.deadlines.kinds(), nodes, silent))


async def outputs(asked: Asked) -> Reply:
    """How outputs are doing."""
    return json_reply(OutputsPage([each.state() for each in asked.gateway.outputs]))


async def plan(asked: Asked) -> Reply:
    """The last plan of capacity."""
    named = asked.gateway.config.console.plan
    if not named:
        raise Problem(404, "no_plan", "console.plan names no file of fleet plan --json")
    try:
        return Reply(await _document(asked, named))
    except OSError as error:
        raise Problem(404, "no_plan", f"the plan cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Problem(404, "no_plan", f"the plan is no JSON of fleet plan: {error}") from None


async def comparison(asked: Asked) -> Reply:
    """The same load in two orders, from a demo's results; no runs as long as there are none."""
    named = asked.gateway.config.console.results
    try:
        return Reply(await _document(asked, named) if named else NO_RUNS)
    except FileNotFoundError:
        return Reply(NO_RUNS)  # the demo is still measuring
    except OSError as error:
        raise Problem(404, "no_results", f"they cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Problem(404, "no_results", f"they are no JSON of the demo: {error}") from None


async def _document(asked: Asked, named: str) -> bytes:
    """A JSON file that the configuration names. OSError; ValueError or RecursionError if it is
    none, or too large."""
    path = asked.gateway.folder / named

    def read() -> bytes:
        with path.open("rb") as file:
            text = file.read(MAX_DOCUMENT + 1)
        if len(text) > MAX_DOCUMENT:
            raise ValueError("it is too large")
        msgspec.json.decode(text)
        return text

    return await asyncio.to_thread(read)


# --- the operator's ------------------------------------------------------------------------------


async def fleet(asked: Asked) -> Reply:
    """The state of the first IAD, as its master tells its operator."""
    assert asked.caller is not None
    status = await asked.gateway.operators.status(asked.caller.key)
    return Reply(encode(status, WIRE_JSON)[HEADER_BYTES:])


async def fleet_all(asked: Asked) -> Reply:
    """The states of all IADs whose operator sockets are configured."""
    assert asked.caller is not None
    if not asked.gateway.operators:
        raise no_operator()
    told = await asked.gateway.operators.statuses(asked.caller.key)
    return json_reply(FleetPage([IadTold(*each) for each in told]))


async def placement(asked: Asked) -> Reply:
    """Places of units, as ``fleet placement show --json`` prints them."""

    def show(operator: Operator) -> PlacementReport:
        return operator.ask_placement(ShowPlacement(f"g{time.monotonic_ns():x}"), WAIT_MS)

    assert asked.caller is not None
    report = await asked.gateway.operators.first(show, asked.caller.key)
    return Reply(encode(report, WIRE_JSON)[HEADER_BYTES:])


ENDPOINTS: Final = (
    Endpoint("GET", "/api/v1/session", "viewer", session, "Who asks", SessionInfo),
    Endpoint("GET", "/api/v1/areas", "viewer", areas, "Areas, names, channels, units", AreasPage,
             (LIMIT, CURSOR)),
    Endpoint("GET", "/api/v1/services", "viewer", services,
             "Services that may be asked, their objectives and areas", ServicesList),
    Endpoint("GET", "/api/v1/now", "viewer", now, "Rooms as they are now", Now, (AREA,)),
    Endpoint("GET", "/api/v1/stream", "viewer", open_stream,
             "Rooms and alerts as they come, as server-sent events", None,
             (Parameter("last_event_id", "As the header Last-Event-ID, for who cannot set it."),),
             media_type="text/event-stream"),
    Endpoint("GET", "/api/v1/alerts", "viewer", alerts, "Alerts, the newest first", AlertsPage,
             (LIMIT, CURSOR, OF)),
    Endpoint("GET", "/api/v1/alerts/raised", "viewer", raised, "What is raised now", RaisedList),
    Endpoint("GET", "/api/v1/deadlines", "viewer", deadlines,
             "Answers against their objectives, as the gateway saw them", DeadlinesPage),
    Endpoint("GET", "/api/v1/outputs", "viewer", outputs, "How outputs are doing", OutputsPage),
    Endpoint("GET", "/api/v1/plan", "operator", plan, "The last plan of capacity", dict[str, Any]),
    Endpoint("GET", "/api/v1/comparison", "viewer", comparison,
             "A demo's results: the same load in two orders", dict[str, Any]),
    Endpoint("GET", "/api/v1/fleet", "operator", fleet, "State of the first IAD", IadStatus),
    Endpoint("GET", "/api/v1/fleet/all", "operator", fleet_all, "States of all IADs", FleetPage),
    Endpoint("GET", "/api/v1/placement", "operator", placement, "Where units live",
             PlacementReport),
)  # fmt: skip
