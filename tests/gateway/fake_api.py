"""A gateway that only pretends: the HTTP API of `agent.gateway` over a building made up here, for
tests of the console's pages. `python -m tests.gateway.fake_api` serves it to look at."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from testkit.waiting import PATIENCE_S
from tests.gateway.building import UNITS, Building, answer_of, deadlines, now_ms, readings

STATIC = Path(__file__).parents[2] / "agent/gateway/static"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# What views show that never changes: of a fleet, its placement, plans and outputs.
VIEWS = json.loads((Path(__file__).parent / "views.json").read_text())

LASTS_MS = {
    "10m": 600_000,
    "1h": 3_600_000,
    "6h": 21_600_000,
    "24h": 86_400_000,
    "3d": 259_200_000,
}
SERVICES = [
    {"name": "humidity", "capability": "humidity", "areas": ["b1"]},
    {
        "name": "temperature",
        "capability": "temperature",
        "percentile": 99.0,
        "latency_ms": 500.0,
        "rate_per_s": 20.0,
        "areas": ["b1"],
    },
]


class FakeApi:
    """The server. `requests` is what was asked of it, `resumed` the Last-Event-IDs of streams."""

    def __init__(self, building: Building | None = None, role: str = "operator") -> None:
        self.building = building or Building()
        self.role = role
        self.source = {"state": "up", "message": ""}
        self.iads: list[dict[str, Any]] = [
            {"iad": VIEWS["fleet"]["iad"], "status": VIEWS["fleet"], "problem": "", "nodes": 8}
        ]
        self.requests: list[str] = []
        self.resumed: list[str | None] = []
        self.port = 0
        self._streams: set[asyncio.Queue[bytes | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    # --- what a test does ---------------------------------------------------------------------

    def start(self) -> None:
        """Serve, on the same port as before."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app(), log_level="error", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = server = uvicorn.Server(config)

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            with listener:
                await server.serve([listener])

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Away, with all streams."""
        if self._server is None or self._thread is None:
            return
        self.drop_streams()
        self._server.should_exit = True
        self._thread.join(PATIENCE_S)
        self._server = None

    def drop_streams(self) -> None:
        self._to_all(None)

    def alert(self, kind: str, trigger: str, area: str, value: float) -> dict[str, Any]:
        """An alert that comes now."""
        alert = self.building.add_alert(kind, trigger, area, value)
        self._to_all(_event("alert", alert, alert["position"]))
        return alert

    def values(self, area: str, channel: str, value: float) -> None:
        """A new value of a room, in columns."""
        rooms = self.building.rooms
        number = next(i for i, room in enumerate(rooms) if room["area"] == area)
        rooms[number]["channels"][channel] |= {"value": value, "time_ms": now_ms()}
        column = {"values": [value], "ages_s": [0], "quality": "g"}
        self._to_all(
            _event(
                "rooms",
                {
                    "version": 2,
                    "time_ms": now_ms(),
                    "rooms": [number],
                    "dense": False,
                    "states": "l",
                    "channels": {channel: column},
                },
            )
        )

    def _to_all(self, event: bytes | None) -> None:
        assert self._loop is not None
        for queue in list(self._streams):
            self._loop.call_soon_threadsafe(queue.put_nowait, event)

    # --- routes -------------------------------------------------------------------------------

    def _app(self) -> Any:
        def answers(content: Any, operators: bool = False) -> Any:
            async def endpoint(request: Request) -> Response:
                if not self.role:
                    return _problem(401, "not_authorised", "this needs a token or a session")
                if operators and self.role != "operator":
                    return _problem(403, "not_authorised", "this needs an operator's token")
                return JSONResponse(content() if callable(content) else content)

            return endpoint

        building = self.building
        api = [
            Route(
                "/session",
                answers(
                    lambda: {
                        "role": self.role,
                        "name": "console",
                        "gateway": "gateway",
                        "version": "0.1.0",
                        "iad": "iad1",
                        "iads": ["iad1", "iad2", "iad3", "iad4"],
                        "every_s": 5.0,
                        "operator": True,
                    }
                ),
            ),
            Route("/areas", answers(self._areas)),
            Route("/services", answers({"services": SERVICES})),
            Route(
                "/now",
                answers(
                    lambda: {
                        "time_ms": now_ms(),
                        "source": self.source,
                        "rooms": building.rooms,
                        "missing": [],
                    }
                ),
            ),
            Route("/readings", self._readings),
            Route("/query", self._query, methods=["POST"]),
            Route("/stream", self._stream),
            Route("/alerts", self._alerts),
            Route("/alerts/raised", answers(lambda: {"raised": building.raised})),
            Route("/deadlines", answers(lambda: deadlines(self.role == "operator"))),
            Route("/comparison", answers(VIEWS["comparison"])),
            Route("/fleet", answers(VIEWS["fleet"], operators=True)),
            Route("/fleet/all", answers(lambda: {"iads": self.iads}, operators=True)),
            Route("/placement", answers(VIEWS["placement"], operators=True)),
            Route("/plan", answers(VIEWS["plan"], operators=True)),
            Route("/outputs", answers(VIEWS["outputs"])),
        ]
        app = Starlette(
            routes=[
                Route("/", lambda _: FileResponse(STATIC / "index.html")),
                Mount("/api/v1", routes=api),
                Mount("/static", StaticFiles(directory=STATIC)),
            ]
        )
        return self._logged(GZipMiddleware(app, minimum_size=400))

    def _logged(self, app: Any) -> Any:
        async def logged(scope: Any, receive: Any, send: Any) -> None:
            self.requests.append(scope["path"])

            async def with_policy(message: Any) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [
                        *message["headers"],
                        (b"content-security-policy", CSP.encode()),
                    ]
                await send(message)

            await app(scope, receive, with_policy)

        return logged

    def _areas(self) -> dict[str, Any]:
        return {
            "areas": [
                {
                    "area": r["area"],
                    "name": r["name"],
                    "channels": [{"name": c, "unit": UNITS[c]} for c in r["channels"]],
                }
                for r in self.building.rooms
            ],
            "cursor": None,
        }

    async def _readings(self, request: Request) -> Response:
        asked = request.query_params
        if not any(room["area"] == asked["area"] for room in self.building.rooms):
            return _problem(404, "no_area", f"no service has an area {asked['area']}")
        span = LASTS_MS[asked["last"]]
        return JSONResponse(
            readings(self.building, asked["area"], span, int(asked.get("points", 300)))
        )

    async def _query(self, request: Request) -> Response:
        body = await request.json()
        if self.role == "viewer":
            return _problem(403, "not_authorised", "this token may look, not ask")
        code, answer = answer_of(self.building, body)
        media = "application/json" if code == 200 else "application/problem+json"
        return JSONResponse(answer, code, media_type=media)

    async def _alerts(self, request: Request) -> Response:
        limit = int(request.query_params.get("limit", 50))
        cursor = int(request.query_params.get("cursor") or len(self.building.alerts) + 1)
        found = [a for a in reversed(self.building.alerts) if a["position"] < cursor][:limit]
        more = str(found[-1]["position"]) if len(found) == limit else None
        return JSONResponse({"alerts": found, "cursor": more})

    async def _stream(self, request: Request) -> Response:
        if not self.role:
            return _problem(401, "not_authorised", "this needs a token or a session")
        known = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
        after = int(known) if known else len(self.building.alerts)
        self.resumed.append(known)
        return StreamingResponse(
            self._events(after),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )

    def _snapshot(self) -> dict[str, Any]:
        building = self.building
        rooms = []
        for room in building.rooms:
            sparks = building.spark(room)
            channels = {c: r | {"spark": sparks[c]} for c, r in room["channels"].items()}
            rooms.append(room | {"channels": channels})
        return {
            "version": 1,
            "time_ms": now_ms(),
            "every_s": 5.0,
            "source": self.source,
            "rooms": rooms,
            "missing": [],
            "raised": building.raised,
            "position": len(building.alerts),
        }

    async def _events(self, position: int) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._streams.add(queue)
        try:
            yield b"retry: 200\n\n" + _event("snapshot", self._snapshot())
            yield b"id: %d\n\n" % position
            for alert in self.building.alerts[position:]:
                yield _event("alert", alert, alert["position"])
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._streams.discard(queue)


def _problem(status: int, reason: str, detail: str) -> Response:
    body = {
        "type": "about:blank",
        "title": reason,
        "status": status,
        "detail": detail,
        "reason": reason,
    }
    return JSONResponse(body, status, media_type="application/problem+json")


def _event(kind: str, data: Any, position: int | None = None) -> bytes:
    head = "" if position is None else f"id: {position}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


@contextmanager
def fake_api(building: Building | None = None, role: str = "operator") -> Iterator[FakeApi]:
    """A server that runs, and ends with the context."""
    gateway = FakeApi(building, role)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()


if __name__ == "__main__":
    with fake_api() as served, contextlib.suppress(KeyboardInterrupt):
        print(served.url, flush=True)  # noqa: T201 - for whoever wants to look
        threading.Event().wait()
