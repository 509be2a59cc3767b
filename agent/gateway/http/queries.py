"""The endpoints that ask the fleet: a query as on the wire, and readings for a picture."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agent.client import Client, NoReplyError
from agent.gateway.http.asking import BusyError
from agent.gateway.http.problems import Problem, of_refusal
from agent.gateway.http.requests import (
    LOOKS_S,
    Asked,
    Endpoint,
    Parameter,
    Reply,
    bad,
    json_reply,
)
from agent.wire.areas import covers
from agent.wire.base import MAX_WINDOW_S, TIMEOUT_FACTOR
from agent.wire.buckets import MAX_BUCKETS, Buckets, ChannelBuckets
from agent.wire.codec import HEADER_BYTES, encode
from agent.wire.codec import JSON as WIRE_JSON
from agent.wire.listing import few
from agent.wire.messages import Answer, Missing, Query, Slo, Window
from agent.wire.packed import PackedColumn
from agent.wire.units import usual_sign

LABEL: Final = "http"
OF_READINGS: Final = "readings"
# Of readings for a picture: an hour of one area takes milliseconds, a month of many nodes longer.
READINGS_SLO: Final = Slo(99.0, 2_000.0)
READINGS_MS: Final = 15_000.0
MAX_CHANNELS_ASKED: Final = 8
FAR: Final = "{} left out: times far from those of the other channels; is a node's clock wrong?"


class ChannelColumns(Struct, frozen=True):
    """A channel's buckets; null where a bucket has no value that is not bad."""

    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]
    count: list[int]
    bad: list[int]


class Readings(Struct, frozen=True):
    """An area's readings in stretches of `length_ms`, the first from `start_ms` on."""

    area: str
    start_ms: int
    length_ms: int
    channels: dict[str, ChannelColumns]
    unit: dict[str, str]
    missing: list[Missing]
    slo_met: bool
    elapsed_ms: float
    held_from_ms: int | None


async def query(asked: Asked) -> Reply:
    """Send a query as it is on the wire, without its type and id; the wire's answer."""
    body = await asked.json()
    if not isinstance(body, dict):
        raise bad("the body is a JSON object, the wire's query without type and id")
    try:
        wanted = msgspec.convert({**body, "type": "query", "id": "g"}, Query)
    except msgspec.ValidationError as error:
        raise bad(str(error)) from None
    longest_ms = asked.gateway.config.queries.longest_timeout_ms
    timeout_ms = wanted.timeout_ms or wanted.slo.latency_ms * TIMEOUT_FACTOR
    if wanted.timeout_ms is not None and timeout_ms > longest_ms:
        raise bad(f"timeout_ms = {timeout_ms:g} is above {longest_ms:g}, the longest taken here")
    answer, encoded = await _ask(asked, wanted, min(timeout_ms, longest_ms), wanted.label or LABEL)
    if answer.status == "refused":
        raise of_refusal(answer)
    return Reply(encoded)


async def _ask(asked: Asked, wanted: Query, timeout_ms: float, label: str) -> tuple[Answer, bytes]:
    """The answer, and its JSON, made beside the loop; Problem."""
    gateway, caller = asked.gateway, asked.caller
    assert caller is not None
    under_way = gateway.under_way
    most = gateway.config.queries.at_once_each
    if under_way.get(caller.key, 0) >= most:
        raise Problem(
            429, "over_rate", f"{most} queries of this token are under way", retry_after_s=1
        )

    def ask(client: Client) -> tuple[Answer, bytes]:
        query = replace(wanted, timeout_ms=timeout_ms, label=label, takes_too_large=True)
        answer = client.answer_to(query, timeout_ms)
        return answer, encode(answer, WIRE_JSON)[HEADER_BYTES:]

    under_way[caller.key] = under_way.get(caller.key, 0) + 1
    try:
        answer, encoded = await gateway.queries.ask(ask, caller.key)
    except BusyError:
        raise Problem(503, "busy", "too many queries are under way", retry_after_s=1) from None
    except NoReplyError as error:
        raise Problem(504, "no_reply", str(error)) from None
    except (ValueError, OSError) as error:
        raise Problem(502, "no_master", str(error)) from None
    finally:
        under_way[caller.key] -= 1
        if not under_way[caller.key]:
            del under_way[caller.key]
    hub = gateway.hub
    hub.deadlines.took(label, wanted.service, wanted.slo, answer, hub.now_ms(), caller.key)
    return answer, encoded


# --- readings ------------------------------------------------------------------------------------


async def readings(asked: Asked) -> Reply:
    """Readings of one area, in as many points as a picture has."""
    area = asked.area(is_required=True)
    wanted = asked.request.query_params.getlist("channel")
    channels = tuple(dict.fromkeys(name for text in wanted for name in text.split(",") if name))
    if len(channels) > MAX_CHANNELS_ASKED:
        raise bad(f"channel names {len(channels)}; {MAX_CHANNELS_ASKED} are the most")
    points = asked.number("points", 300, 1, MAX_BUCKETS)
    window = _window(asked)
    if not asked.text("service"):
        # The services are known only while somebody looks, and a program may ask for nothing else.
        await asked.gateway.hub.look_now(LOOKS_S)
    services = _services(asked, area, channels)
    try:
        queries = [
            Query(
                "g", (area,), window, READINGS_SLO, names, "buckets", READINGS_MS, service,
                OF_READINGS, buckets=points, takes_too_large=True,
            )
            for service, names in services.items()
        ]  # fmt: skip
        for each in queries:
            msgspec.convert(msgspec.to_builtins(each), Query)
    except (ValueError, msgspec.ValidationError) as error:
        raise bad(str(error)) from None
    told = await asyncio.gather(
        *[_ask(asked, each, READINGS_MS, OF_READINGS) for each in queries], return_exceptions=True
    )
    answers = []
    for found in told:
        if isinstance(found, BaseException):
            raise found
        answers.append(found[0])
    return json_reply(_merged(asked, area, answers))


def _window(asked: Asked) -> Window:
    start, end = asked.text("start"), asked.text("end")
    if not start and not end:
        last_s = asked.seconds("last", "24h")
        if last_s > MAX_WINDOW_S:
            raise bad("last is at most 366 days")
        return Window(last_s=last_s)
    if asked.text("last"):
        raise bad("give either last, or start and end")
    try:
        return Window(
            start_ms=asked.number("start", -1, 0, 2**53 - 1),
            end_ms=asked.number("end", -1, 0, 2**53 - 1),
        )
    except ValueError as error:
        raise bad(str(error)) from None


def _services(asked: Asked, area: str, channels: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The services to ask, and their channels: one that is named, or those of the area whose
    capability is a channel wanted."""
    if service := asked.text("service"):
        return {service: channels}
    hub = asked.gateway.hub
    if not hub.services:
        configured = asked.gateway.config.console.services
        return dict.fromkeys(configured or ("default",), channels)
    there = [s for s in hub.services if not s.areas or any(covers(up, area) for up in s.areas)]
    if not there:
        below = [up for s in hub.services for up in s.areas if covers(area, up)]
        if below:
            raise bad(f"{area} is no room; name one of those below it, such as {below[0]}")
        raise Problem(404, "no_area", f"no service has an area {area}")
    found: dict[str, tuple[str, ...]] = {}
    covered: set[str] = set()
    for each in there:
        name, capability = each.name, each.capability
        if not capability:
            return {name: channels}
        if (not channels or capability in channels) and capability not in covered:
            covered.add(capability)
            found[name] = (capability,)
    if not found:
        raise Problem(404, "no_channel", f"no service gives {', '.join(channels)} of {area}")
    return found


def _merged(asked: Asked, area: str, answers: list[Answer]) -> Readings:
    """One picture of the answers of all services."""
    served = [answer for answer in answers if answer.status != "refused"]
    if not served:
        raise of_refusal(answers[0])
    columns: dict[str, ChannelColumns] = {}
    first: Buckets | None = None
    held_ms: int | None = None
    missing = [gap for answer in served for gap in answer.missing]
    for answer in served:
        if len(answer.results) > 1:
            raise bad(
                f"{area} is no room; name one of those below it, such as {answer.results[0].area}"
            )
        for result in answer.results:
            found = result.buckets
            if found is None or (first is not None and found.length_ms != first.length_ms):
                continue
            first = first or found
            held_ms = result.held_from_ms if held_ms is None else held_ms
            places = (found.start_ms - first.start_ms) // first.length_ms
            if abs(places) > MAX_BUCKETS:  # no picture has both
                channels = few(sorted(found.channels), MAX_CHANNELS_ASKED)
                missing.append(Missing(area, "no_data", message=FAR.format(channels)))
                continue
            for name, each in found.channels.items():
                columns[name] = _columns(each, places)
    if first is None and missing and all(gap.reason == "no_channel" for gap in missing):
        there = sorted({name for gap in missing for name in gap.channels})
        only = f"only {', '.join(there)}" if there else "none of these channels"
        raise Problem(404, "no_channel", f"{area} gives {only}")
    room = asked.gateway.hub.rooms.get(area)
    units = {} if room is None else {name: each.unit for name, each in room.channels.items()}
    return Readings(
        area,
        0 if first is None else first.start_ms,
        0 if first is None else first.length_ms,
        columns,
        {name: units.get(name) or usual_sign(name) for name in columns},
        missing,
        all(answer.slo_met for answer in answers),
        max(answer.elapsed_ms for answer in answers),
        held_ms,
    )


def _columns(buckets: ChannelBuckets, places: int) -> ChannelColumns:
    """The columns of a channel, `places` buckets later: another service was asked a moment later,
    and may begin with the next bucket."""
    none: list[Any] = [None]
    bad_column = [0] * len(buckets.count) if buckets.bad is None else _list(buckets.bad)
    columns = [_list(buckets.min), _list(buckets.mean), _list(buckets.max)]
    filled = [*[(each, none) for each in columns], (_list(buckets.count), [0]), (bad_column, [0])]
    moved = [fill * places + each if places > 0 else each[-places:] for each, fill in filled]
    return ChannelColumns(moved[0], moved[1], moved[2], moved[3], moved[4])


def _list(column: PackedColumn) -> list[Any]:
    numbers: list[Any] = msgspec.json.decode(column.json())  # seven digits, and null for NaN
    return numbers


ENDPOINTS: Final = (
    Endpoint("POST", "/api/v1/query", "asker", query, "Ask, as on the wire", Answer, body=Query),
    Endpoint("GET", "/api/v1/readings", "viewer", readings, "An area's readings for a picture",
             Readings, (
                 Parameter("area", "One area.", is_required=True),
                 Parameter("channel", "Channels, with commas between; by default all."),
                 Parameter("last", "How long back: 10m, 24h (default), 3d; seconds if no letter."),
                 Parameter("start", "In its place: milliseconds since 1970 UTC, with end.",
                           {"type": "integer"}),
                 Parameter("end", "Up to then.", {"type": "integer"}),
                 Parameter("points", "About so many points, equally far apart.",
                           {"type": "integer", "minimum": 1, "maximum": MAX_BUCKETS}),
                 Parameter("service", "The service asked."),
             )),
)  # fmt: skip
