"""Endpoints: how one reads a request and replies."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field
from starlette.requests import ClientDisconnect, Request

from agent.client import Client
from agent.gateway.config import GatewayConfig
from agent.gateway.feed.alert_feed import AlertFeed
from agent.gateway.feed.alert_log import AlertLog
from agent.gateway.feed.hub import Hub
from agent.gateway.http.asking import Askers
from agent.gateway.http.operators import Operators
from agent.gateway.http.problems import Problem
from agent.gateway.http.send_budget import SendBudget
from agent.gateway.http.static_files import StaticFile
from agent.gateway.outputs.base import Output
from agent.gateway.tokens import Access, Caller, Role
from agent.runtime.console import Say
from agent.wire.areas import AREA_PATTERN
from agent.wire.codec import MAX_JSON_COMMAS, MAX_REQUEST_BYTES
from agent.wire.listing import did_you_mean

JSON: Final = "application/json"
DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m|h|d)?", re.ASCII)
SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "": 1.0}
AREA: Final = re.compile(AREA_PATTERN)
REFUSES: Final = re.compile(r"q=0(\.0*)?")  # a weight of none
# Who asks how the fleet is keeps it watched for so long.
LOOKS_S: Final = 60.0
# A body is a query, which fits a packet or two.
BODY_S: Final = 20.0
BODY_READ: Final = "sanderling.body_read"  # in the scope of a request


class Reply(NamedTuple):
    """A response with its whole body."""

    body: bytes
    media_type: str = JSON
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class Stream(NamedTuple):
    """A response that writes itself: an ASGI application."""

    serve: Callable[..., Awaitable[None]]


class Gateway(Struct, eq=False):
    """Objects that endpoints work with."""

    config: GatewayConfig
    folder: Path
    hub: Hub
    alerts: AlertLog
    feed: AlertFeed
    access: Access
    queries: Askers[Client]
    operators: Operators
    outputs: list[Output]
    say: Say
    version: str
    is_stopping: bool = False
    streams: Counter[str] = field(default_factory=Counter)  # open ones, by caller
    sending: SendBudget = field(default_factory=SendBudget)  # of streams
    static: dict[str, StaticFile] = {}
    under_way: dict[str, int] = {}
    counted: dict[tuple[str, int], int] = {}


class Asked(NamedTuple):
    """A request that may be answered. `caller` is None for what needs none."""

    gateway: Gateway
    request: Request
    caller: Caller | None
    is_secure: bool

    def text(self, name: str, default: str = "") -> str:
        """A parameter of the query string, given at most once; Problem."""
        values = self.request.query_params.getlist(name)
        if len(values) > 1:
            raise bad(f"{name} is given {len(values)} times")
        return values[0] if values else default

    def require_known(self, known: Sequence[str]) -> None:
        """Refuse parameters of the query string that are not `known`: an answer that ignores a
        misspelt one looks like the right answer. Problem."""
        for name in self.request.query_params:
            if name not in known:
                those = f"it takes {', '.join(known)}" if known else "it takes none"
                hint = did_you_mean(name[:40], known, those)
                raise bad(f"{self.request.scope['path']} has no parameter {name[:40]!r}; {hint}")

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        """A whole number."""
        text = self.text(name, str(default))
        if not re.fullmatch(r"-?[0-9]{1,16}", text, re.ASCII):
            raise bad(f"{name} = {text[:40]!r} is no whole number")
        if not lowest <= (found := int(text)) <= highest:
            raise bad(f"{name} = {found} is not from {lowest} to {highest}")
        return found

    def seconds(self, name: str, default: str) -> float:
        """A duration: 90s, 10m, 24h, 3d, or seconds without a letter."""
        text = self.text(name, default)
        match = DURATION.fullmatch(text)
        if match is None or not (found := float(match[1]) * SECONDS[match[2] or ""]):
            raise bad(f"{name} = {text[:40]!r} is no duration; write 90s, 10m, 24h or 3d")
        return found

    def area(self, name: str = "area", *, is_required: bool = False) -> str:
        """An area, or nothing."""
        text = self.text(name)
        if not text:
            if is_required:
                raise bad(f"{name} is missing; write {name}=b1/f4/r413")
            return ""
        if len(text) > 512 or not AREA.search(text):
            raise bad(f"{name} = {text[:40]!r} is no area; write b1/f4/r413")
        return text

    async def json(self) -> Any:
        """The body, decoded; Problem."""
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise Problem(415, "unsupported_media_type", f"send Content-Type: {JSON}")
        body = await self.body()
        if body.count(b",") > MAX_JSON_COMMAS:
            raise bad(f"JSON of more than {MAX_JSON_COMMAS} elements is over the limit")
        try:
            return msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise bad(f"the body is no JSON: {error}") from None

    async def body(self) -> bytes:
        """The body, bounded."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_S):
                async for chunk in self.request.stream():
                    size += len(chunk)
                    if size > MAX_REQUEST_BYTES:
                        most = f"a body has at most {MAX_REQUEST_BYTES} bytes"
                        raise Problem(413, "too_large", most)
                    parts.append(chunk)
        except TimeoutError:
            raise Problem(408, "too_slow", f"a body comes within {BODY_S:g} s") from None
        except ClientDisconnect:
            raise bad("the body broke off") from None
        self.request.scope[BODY_READ] = True
        return b"".join(parts)


class Parameter(NamedTuple):
    """A parameter of the query string, for the description of the API."""

    name: str
    meaning: str
    schema: dict[str, Any] = {"type": "string"}  # noqa: RUF012 - read only
    is_required: bool = False


class Endpoint(NamedTuple):
    """A method at a path, for callers of a role; None: for everybody."""

    method: str
    path: str
    role: Role | None
    serve: Callable[[Asked], Awaitable[Reply | Stream]]
    summary: str
    answer: Any = None
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    media_type: str = JSON


def takes_gzip(request: Request) -> bool:
    """Whether who asks takes gzip (RFC 9110, 12.5.3): one may name it to say that it does not."""
    for each in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = each.partition(";")
        if name.strip() == "gzip":
            return REFUSES.fullmatch(weight.strip()) is None
    return False


def bad(detail: str, reason: str = "malformed") -> Problem:
    """The request makes no sense."""
    return Problem(400, reason, detail)


def json_reply(found: Any) -> Reply:
    """A reply in JSON."""
    return Reply(msgspec.json.encode(found))
