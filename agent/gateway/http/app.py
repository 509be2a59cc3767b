"""The application: what every request passes before an endpoint serves it."""

from __future__ import annotations

import asyncio
import gzip
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from agent.gateway.config import GatewayHttp, is_loopback
from agent.gateway.http import problems, routes
from agent.gateway.http.counted_host import counted_host, unmapped, without_port
from agent.gateway.http.pages import cookie_name
from agent.gateway.http.problems import Problem
from agent.gateway.http.requests import (
    BODY_READ,
    JSON,
    Asked,
    Endpoint,
    Gateway,
    Reply,
    Stream,
    takes_gzip,
)
from agent.gateway.tokens import Caller
from agent.runtime.token_bucket import TokenBucket, TokenBuckets

MIN_PACKED: Final = 1_024
LONG: Final = 65_536  # takes the loop milliseconds to compress
# Long bodies that are being sent, together; to one token, or to a host without one, as much as is
# left free. One that is alone may be larger, and counts as half of it: others have the rest.
MAX_SENDING_BYTES: Final = 64 << 20
PACKED_TYPES: Final = (JSON, "text/")
LOOPBACK_NAMES: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
API: Final = "/api/"
# Of a query string, and of cookies: each takes the loop a microsecond or less, 16 KiB of them 5 ms.
MAX_PARAMETERS: Final = 64
MAX_COOKIES: Final = 256
SAFE: Final = frozenset(("GET", "HEAD"))
BURST_S: Final = 2.0  # a token may use so many seconds' worth of its rate at once
MAX_BUCKETS: Final = 4_096
# Requests of one host without a valid token: those of many pages being opened.
STRANGERS_BURST: Final = 500
STRANGERS_PER_S: Final = 50.0
HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (
        b"content-security-policy",
        (
            b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            b"font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
            b"form-action 'self'; frame-ancestors 'none'"
        ),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
CLOSE: Final = (b"connection", b"close")
HTTPS_HEADERS: Final = ((b"strict-transport-security", b"max-age=31536000"),)


class App:
    """An ASGI application. `clock` is monotonic, in seconds."""

    def __init__(self, gateway: Gateway, clock: Callable[[], float]) -> None:
        self._gateway = gateway
        self._clock = clock
        self._http = gateway.config.http
        self._hosts = allowed_hosts(self._http)
        self._proxies = frozenset(ip_address(each) for each in self._http.proxies)
        self._serves = served(self._http)
        self._buckets: dict[str, TokenBucket] = {}
        self._sending_bytes: Counter[str] = Counter()
        self._strangers = TokenBuckets(STRANGERS_BURST, STRANGERS_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return  # uvicorn is told to send no other
        request = Request(scope, receive)
        status = 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message["headers"], *self._headers(request)]
                if _has_unread_body(request):
                    headers.append(CLOSE)
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._serve(request, receive, counted)
        except ClientDisconnect:
            pass
        finally:
            key = (request.method if request.method in ("GET", "HEAD", "POST") else "other", status)
            self._gateway.counted[key] = self._gateway.counted.get(key, 0) + 1

    async def _serve(self, request: Request, receive: Receive, send: Send) -> None:
        try:
            reply = await self._reply(request)
        except Problem as problem:
            reply = _refusal(problem)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of one request ends no other
            self._fault(request, error)
            fault = Problem(500, "fault", "a fault of the gateway; its log has more")
            reply = Reply(fault.body, problems.MEDIA_TYPE, fault.status)
        if isinstance(reply, Stream):
            try:
                await reply.serve(request.scope, receive, send)
            except Exception as error:  # noqa: BLE001 - it ends this stream, which is opened again
                self._fault(request, error)
        else:
            await self._send_bounded(request, reply, send)

    async def _send_bounded(self, request: Request, reply: Reply, send: Send) -> None:
        """Send a reply; a long body counts until it was taken, or the connection is gone."""
        size = len(reply.body)
        if size < LONG:
            await _send(request, reply, send)
            return
        caller, sending = self._caller(request), self._sending_bytes
        key = self._host(request) if caller is None else caller.key
        held = sending.total()
        if held and sending[key] + size > MAX_SENDING_BYTES - held:
            problem = Problem(
                503, "busy", "too many long answers are being sent", retry_after_s=problems.RETRY_S
            )
            await _send(request, _refusal(problem), send)
            return
        counted = min(size, MAX_SENDING_BYTES // 2)
        sending[key] += counted
        try:
            await _send(request, reply, send)
        finally:
            sending[key] -= counted
            if not sending[key]:
                del sending[key]

    def _fault(self, request: Request, error: Exception) -> None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        self._gateway.say(
            f"a fault at {request.scope['path'][:80]!r}: {type(error).__name__}: {error} "
            f"({last.name}, line {last.lineno})\n"
        )

    async def _reply(self, request: Request) -> Reply | Stream:
        caller = self._caller(request)
        if caller is None and not self._strangers.admits(self._host(request), self._clock()):
            # Further requests that came with it are not read.
            raise Problem(
                429,
                "over_rate",
                f"more than {STRANGERS_PER_S:g} requests a second of this host without a token",
                retry_after_s=1,
                headers={"Connection": "close"},
            )
        self._check_way(request)
        if request.scope["query_string"].count(b"&") >= MAX_PARAMETERS:
            raise Problem(400, "malformed", f"a query has at most {MAX_PARAMETERS} parameters")
        endpoint = _endpoint(request)
        if endpoint.role is not None:
            if caller is None:
                raise Problem(
                    401,
                    "not_authenticated",
                    "send a token as Authorization: Bearer …, or open a link that "
                    "`fleet gateway link` prints",
                    headers={"WWW-Authenticate": "Bearer"},
                )
            if not caller.may(endpoint.role):
                raise Problem(
                    403,
                    "not_authorised",
                    f"this is for the role {endpoint.role}; yours is {caller.role}",
                )
            self._check_rate(caller)
        asked = Asked(self._gateway, request, caller, self._is_secure(request))
        if endpoint.path.startswith(API):
            asked.require_known([each.name for each in endpoint.parameters])
        made: Awaitable[Reply | Stream] = endpoint.serve(asked)
        reply = await made
        if isinstance(reply, Reply) and not any(k == "Cache-Control" for k, _ in reply.headers):
            reply = reply._replace(headers=(*reply.headers, ("Cache-Control", "no-store")))
        return reply

    # --- who may come this way -----------------------------------------------------------------

    def _check_way(self, request: Request) -> None:
        """Refuse what comes round the proxy, for another name (DNS rebinding), or from another
        site; and what has two lengths, of which a proxy may have read the other one, so that what
        follows may be no request of its own (RFC 9112, 6.1)."""
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            raise Problem(
                400,
                "malformed",
                "a request has either Content-Length or Transfer-Encoding",
                headers={"Connection": "close"},
            )
        peer = _peer(request)
        if not self._serves(peer):
            raise Problem(
                403,
                "not_authorised",
                "only the proxies named may connect",
                headers={"Connection": "close"},
            )
        hosts = request.headers.getlist("host")
        name = host_name(hosts[0]) if len(hosts) == 1 else ""
        if not name or name not in self._hosts:
            raise Problem(421, "wrong_host", "this name is not in http.hosts")
        origins = request.headers.getlist("origin")
        scheme = "https" if self._is_secure(request) else "http"
        if origins and origins != [f"{scheme}://{hosts[0]}".lower()]:
            raise Problem(403, "foreign_origin", "requests of other sites are not served")
        # Cookies know no ports: a page of another server of this host may send them, too.
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site") and (
            request.headers.get("sec-fetch-mode") != "navigate" or request.method not in SAFE
        ):
            raise Problem(403, "foreign_origin", "requests of other sites are not served")

    def _is_proxy(self, peer: str) -> bool:
        return _is_among(self._proxies, peer)

    def _is_secure(self, request: Request) -> bool:
        """Whether the browser came by https, to this process or to a proxy of ours."""
        if request.scope.get("scheme") == "https":
            return True
        told = request.headers.get("x-forwarded-proto", "")
        return told == "https" and self._is_proxy(_peer(request))

    def _host(self, request: Request) -> str:
        """The host that a request is from: behind a proxy of ours, the one that it names."""
        peer = _peer(request)
        if not self._is_proxy(peer):
            return counted_host(peer)
        told = ",".join(request.headers.getlist("x-forwarded-for"))
        return counted_host(without_port(told.rpartition(",")[2].strip()[:64]) or peer)

    def _caller(self, request: Request) -> Caller | None:
        """The caller: by the token, or else by the cookie."""
        given = request.headers.getlist("authorization")
        if given:
            kind, _, secret = given[0].partition(" ")
            if len(given) > 1 or kind.lower() != "bearer":
                return None
            return self._gateway.access.find(secret.strip())
        secret = _cookie(request, cookie_name(is_secure=self._is_secure(request)))
        return self._gateway.access.find(secret) if secret else None

    def _check_rate(self, caller: Caller) -> None:
        rate_per_s = caller.rate_per_s or self._gateway.config.access.rate_per_s
        now = self._clock()
        bucket = self._buckets.get(caller.key)
        if bucket is None or bucket.rate_per_s != rate_per_s:
            if len(self._buckets) >= MAX_BUCKETS:
                del self._buckets[next(iter(self._buckets))]
            bucket = TokenBucket(rate_per_s, max(10.0, BURST_S * rate_per_s), now)
            self._buckets[caller.key] = bucket
        if wait_s := bucket.wait_s(now):
            raise Problem(
                429,
                "over_rate",
                f"more than {rate_per_s:g} requests a second; try again in {wait_s:.1f} s",
                retry_after_s=wait_s,
            )
        bucket.take()

    def _headers(self, request: Request) -> tuple[tuple[bytes, bytes], ...]:
        return HEADERS + HTTPS_HEADERS if self._is_secure(request) else HEADERS


def served(http: GatewayHttp) -> Callable[[str], bool]:
    """Whether what connects from an address is served: where proxies are named, only these and this
    host."""
    proxies = frozenset(ip_address(each) for each in http.proxies)
    return lambda peer: not proxies or is_loopback(peer) or _is_among(proxies, peer)


def _is_among(addresses: Collection[IPv4Address | IPv6Address], peer: str) -> bool:
    try:
        return ip_address(peer) in addresses
    except ValueError:
        return False


def allowed_hosts(http: GatewayHttp) -> frozenset[str]:
    """The names by which the gateway may be reached, in lower case."""
    host = f"[{http.host}]" if ":" in http.host else http.host
    found = {host.lower(), *(each.lower() for each in http.hosts)}
    if http.is_local or http.host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        found |= LOOPBACK_NAMES
    return frozenset(found)


def host_name(header: str) -> str:
    """The name in a Host header, in lower case and without port; empty for what is none."""
    name, colon, port = header.rpartition(":")
    if not colon or header.endswith("]"):
        name, port = header, ""
    if colon and name != header and not (port.isascii() and port.isdigit()):
        return ""
    return name.lower()


def _peer(request: Request) -> str:
    """The other end's address; empty if it has gone."""
    return unmapped(request.client.host) if request.client is not None else ""


def _has_unread_body(request: Request) -> bool:
    """Whether a body comes, or has come, that no endpoint wanted: it would be parsed to its end."""
    length = request.headers.get("content-length", "0")
    comes = length.strip("0") != "" or "transfer-encoding" in request.headers
    return comes and not request.scope.get(BODY_READ)


def _endpoint(request: Request) -> Endpoint:
    # As it came: `request.url` is put together from Host and path, and not everything makes one.
    methods = routes.find(request.scope["path"])
    if not methods:
        raise Problem(
            404, "not_found", "there is nothing here; /api/v1/openapi.json lists the routes"
        )
    method = "GET" if request.method == "HEAD" else request.method
    if (found := methods.get(method)) is None:
        allow = ", ".join(sorted([*methods, *(["HEAD"] if "GET" in methods else [])]))
        raise Problem(405, "wrong_method", f"use {allow}", headers={"Allow": allow})
    return found


def _cookie(request: Request, name: str) -> str:
    """The value of a cookie; empty if there is none, or more than one, or very many cookies."""
    found = []
    headers = request.headers.getlist("cookie")
    if sum(header.count(";") + 1 for header in headers) > MAX_COOKIES:
        return ""
    for header in headers:
        for part in header.split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                found.append(value)
    return found[0] if len(set(found)) == 1 else ""


def _refusal(problem: Problem) -> Reply:
    headers = (*problem.headers.items(), ("Cache-Control", "no-store"))
    return Reply(problem.body, problems.MEDIA_TYPE, problem.status, headers)


async def _send(request: Request, reply: Reply, send: Send) -> None:
    body, headers = reply.body, list(reply.headers)
    if (
        len(body) >= MIN_PACKED
        and reply.media_type.startswith(PACKED_TYPES)
        and not any(key == "Content-Encoding" for key, _ in headers)
        and takes_gzip(request)
    ):
        if len(body) < LONG:
            body = gzip.compress(body, 5, mtime=0)
        else:
            body = await asyncio.to_thread(gzip.compress, body, 5, mtime=0)
        headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
    if reply.status != 304:
        headers += [("Content-Type", reply.media_type), ("Content-Length", str(len(body)))]
    raw = [(key.lower().encode("latin-1"), value.encode("latin-1")) for key, value in headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})
    body = b"" if request.method == "HEAD" else body
    await send({"type": "http.response.body", "body": body, "more_body": len(body) >= LONG})
    if len(body) >= LONG:
        # uvicorn takes it when the connection has taken what was before it, or has gone.
        await send({"type": "http.response.body", "body": b""})
