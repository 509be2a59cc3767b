"""The endpoints that need no token: the page, its files, the way in, and signs of life."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Final

from agent.gateway import tokens
from agent.gateway.http.problems import Problem
from agent.gateway.http.requests import Asked, Endpoint, Parameter, Reply, takes_gzip
from agent.gateway.http.static_files import INDEX, StaticFile
from agent.gateway.outputs import readings_page
from agent.metrics import gateway_families as families
from agent.metrics.families import Family
from agent.wire.config import ConfigError

TEXT: Final = "text/plain; charset=utf-8"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
DAY_S: Final = 86_400.0
NO_PAGE: Final = b"The page of this gateway is not installed; the API is at /api/v1.\n"
LINK_AGAIN: Final = (
    "This link was used before, or is older than ten minutes. "
    "On the gateway's host, `fleet gateway link` prints another."
)


def cookie_name(*, is_secure: bool) -> str:
    """The session's cookie: over https one that no other host or path can set."""
    return "__Host-sanderling" if is_secure else "sanderling"


async def login(asked: Asked) -> Reply:
    """Use a one-time link up: a session, and on to the page."""
    access = asked.gateway.config.access
    code = asked.text("code")
    if not code or len(code) > tokens.MAX_TOKEN:
        return _sorry(asked)
    if asked.request.method == "HEAD":  # who only looks at a link does not use it up
        raise Problem(405, "wrong_method", "use GET", headers={"Allow": "GET"})
    if not asked.gateway.access.has_link(code):
        return _sorry(asked)  # before a thread waits for the lock: this route is open to everybody
    path = asked.gateway.access.path
    try:
        opened = await asyncio.to_thread(
            tokens.open_session, path, code, access.session_days * DAY_S
        )
    except (OSError, ConfigError) as error:
        detail = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Problem(503, "no_session", f"no session now: {detail}", retry_after_s=5) from None
    if opened is None:
        return _sorry(asked)
    secret, _role = opened
    asked.gateway.access.refresh()
    parts = [
        f"{cookie_name(is_secure=asked.is_secure)}={secret}",
        "Path=/",
        f"Max-Age={round(access.session_days * DAY_S)}",
        "HttpOnly",
        "SameSite=Strict",
    ]
    if asked.is_secure:
        parts.append("Secure")
    return Reply(b"", TEXT, 303, (("Location", "/"), ("Set-Cookie", "; ".join(parts))))


def _sorry(asked: Asked) -> Reply:
    if "text/html" not in asked.request.headers.get("accept", ""):
        raise Problem(403, "not_authorised", LINK_AGAIN)
    why, _, then = html.escape(LINK_AGAIN, quote=False).partition(". ")
    then = re.sub("`(.+?)`", r"<code>\1</code>", then)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sanderling</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/static/style.css"></head><body>'
        '<header class="top"><span class="brand">Sanderling</span></header>'
        f'<main class="narrow"><h1>{why}</h1><p>{then}</p></main></body></html>'
    )
    return Reply(page.encode(), HTML, 403)


async def health(_asked: Asked) -> Reply:
    """That the gateway serves; how its master is only the page says."""
    return Reply(b'{"status":"ok"}')


async def index(asked: Asked) -> Reply:
    """The page."""
    return _static(asked, INDEX)


async def static(asked: Asked) -> Reply:
    """A file of the page."""
    return _static(asked, asked.request.scope["path"].removeprefix("/static/"))


def _static(asked: Asked, name: str) -> Reply:
    found: StaticFile | None = asked.gateway.static.get(name)
    if found is None:
        if name == INDEX:
            return Reply(NO_PAGE, TEXT)
        raise Problem(404, "not_found", "there is no such file")
    headers = [("ETag", found.etag), ("Cache-Control", "no-cache")]
    if asked.request.headers.get("if-none-match") == found.etag:
        return Reply(b"", found.media_type, 304, tuple(headers))
    if found.packed and takes_gzip(asked.request):
        headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        return Reply(found.packed, found.media_type, 200, tuple(headers))
    return Reply(found.body, found.media_type, 200, tuple(headers))


async def metrics(asked: Asked) -> Reply:
    """Metrics of the gateway itself, for Prometheus."""
    gateway = asked.gateway
    lines: list[str] = []

    def add(family: Family, rows: list[tuple[str, float]]) -> None:
        lines.append(f"# HELP {family.name} {family.meaning}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines.extend(f"{family.name}{labels} {value:.17g}" for labels, value in rows)

    add(families.STREAMS, [("", gateway.streams.total())])
    add(families.LOOKERS, [("", gateway.hub.lookers)])
    add(families.ROOMS, [("", len(gateway.hub.rooms))])
    states = [("watch", gateway.hub.source.state), ("alerts", gateway.feed.state.state)]
    # A master that nobody asks is not down.
    told = [(f'{{link="{name}"}}', state) for name, state in states if state != "idle"]
    add(families.UP, [(labels, float(state == "up")) for labels, state in told])
    add(families.ALERTS, [("", gateway.alerts.newest)])
    counted = sorted(gateway.counted.items())
    add(families.REQUESTS, [(f'{{method="{m}",status="{s}"}}', n) for (m, s), n in counted])
    numbers = gateway.hub.deadlines.numbers()
    for family, what in (
        (families.ANSWERS, "count"),
        (families.ANSWERS_LATE, "late"),
        (families.ANSWERS_PARTIAL, "partial"),
    ):
        kinds = [
            (f'{{label="{_label(k["label"])}",service="{k["service"]}"}}', v) for k, v in numbers
        ]
        add(family, [(labels, v[what]) for labels, v in kinds])
    return Reply(("\n".join(lines) + "\n").encode(), METRICS)


# Whoever scrapes this often has the fleet watched all the time.
SCRAPED_S: Final = 90.0
PAGE_MS: Final = 1_000  # ages on it are as old as that at most


async def metrics_of_readings(asked: Asked) -> Reply:
    """The readings of all rooms, for Prometheus."""
    hub = asked.gateway.hub
    await hub.look_now(SCRAPED_S)
    rooms, now_ms = hub.rooms_heard(), hub.now_ms()
    # Of several domains it is one sample: Prometheus takes no two of the same labels.
    raised = dict.fromkeys((each.trigger, each.area) for each in hub.raised())
    key = hub.rooms.version, tuple(raised), now_ms // PAGE_MS
    page = await hub.shared.get(
        "readings", key, lambda: readings_page.page(rooms, raised, now_ms).encode()
    )
    return Reply(page, METRICS)


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


ENDPOINTS: Final = (
    Endpoint("GET", "/", None, index, "The page", media_type=HTML),
    Endpoint("GET", "/static/", None, static, "Files of the page", media_type="*/*"),
    Endpoint("GET", "/login", None, login, "Open a session by a one-time link", None,
             (Parameter("code", "The link's code.", is_required=True),), media_type=TEXT),
    Endpoint("GET", "/healthz", None, health, "Whether the gateway serves", dict[str, str]),
    Endpoint("GET", "/metrics", "viewer", metrics, "Metrics of the gateway", None,
             media_type=METRICS),
    Endpoint("GET", "/metrics/readings", "viewer", metrics_of_readings,
             "Readings of all rooms, for Prometheus", None, media_type=METRICS),
)  # fmt: skip
