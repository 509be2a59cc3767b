"""The process: what it listens on, its threads, and how it ends within two seconds."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import uvicorn

from agent.client import Client, Operator
from agent.gateway import tokens
from agent.gateway.config import GatewayConfig
from agent.gateway.feed.alert_feed import AlertFeed, FeedState
from agent.gateway.feed.alert_log import AlertLog
from agent.gateway.feed.hub import Hub
from agent.gateway.feed.rooms import Rooms
from agent.gateway.feed.watching import FromThread, Watched, Watching
from agent.gateway.http.app import App, served
from agent.gateway.http.asking import Askers
from agent.gateway.http.connections import Listener, Protocol
from agent.gateway.http.operators import Operators
from agent.gateway.http.patience import Patience
from agent.gateway.http.requests import Gateway
from agent.gateway.http.static_files import read_static
from agent.gateway.outputs.base import Sources
from agent.gateway.outputs.configured import outputs_of
from agent.gateway.tokens import Access
from agent.net.intake import room_for_files
from agent.net.keys import KeyFiles
from agent.runtime.console import Say
from agent.runtime.release import release
from agent.runtime.signals import StopSignal
from agent.wire.config import ConfigError
from agent.wire.messages import Slo

# Streams end by themselves when the gateway stops; what does not is cut after so long.
GRACE_S: Final = 1
THREADS_S: Final = 0.5
# uvicorn ticks ten times a second.
LOOK_TICKS: Final = 50


class Connections:
    """How masters are reached."""

    def __init__(self, config: GatewayConfig, folder: Path) -> None:
        self._master = config.master
        self._operators = config.every_operator
        self._folder = folder

    def client(self) -> Client:
        """A client of the master's public socket."""
        master = self._master
        keys = [KeyFiles(self._path(master.key), self._path(each)) for each in master.keys]
        return Client(list(master.addresses), keys or None)

    def operator(self, number: int = 0) -> Operator:
        """A client of an operator socket."""
        operator = self._operators[number]
        keys = None
        if operator.key:
            keys = KeyFiles(self._path(operator.key), self._path(operator.keys))
        return Operator(operator.address, keys)

    def _path(self, name: str) -> str:
        return str(self._folder / name)


class Server:
    """A gateway, from its configuration. ConfigError, OSError in one line."""

    def __init__(
        self,
        config: GatewayConfig,
        folder: Path,
        say: Say,
        *,
        connections: Connections | None = None,
    ) -> None:
        self._config = config
        self._say = say
        self._connections = connections or Connections(config, folder)
        self._context = tls_context(config, folder)
        self._access = Access(str(folder / config.access.file))
        self.socket = bound(config)
        try:
            path = folder / config.alerts.path
            self._alerts = AlertLog(path, say, most=config.alerts.most, days=config.alerts.days)
        except BaseException:
            self.socket.close()
            raise
        self._folder = folder

    @property
    def url(self) -> str:
        """URL of the page, as a browser on this host reaches it."""
        return self._config.http.url

    def first_link(self) -> str:
        """A link for the first to come; empty if somebody has had access before."""
        if not self._access.is_new:
            return ""
        role: tokens.Role = "operator" if self._config.every_operator else "asker"
        return f"{self.url}/login?code={tokens.create_link(self._access.path, role)}"

    def serve(self, stop: StopSignal, serves: Callable[[], None] = lambda: None) -> None:
        """Serve until told to stop; `serves` is called once requests are taken."""
        asyncio.run(self._serve(stop, serves))

    async def _serve(self, stop: StopSignal, serves: Callable[[], None]) -> None:
        config, loop = self._config, asyncio.get_running_loop()
        gateway = self._made()
        hub, feed = gateway.hub, gateway.feed
        console = config.console
        watched = Watched(
            console.services, console.areas, console.every_s, Slo(99.0, console.latency_ms)
        )
        tell = FromThread(loop.call_soon_threadsafe, hub)
        watching = Watching(self._connections.client, watched, tell, self._say)
        hub.watcher = watching
        sources = Sources(config.gateway.name, self._folder, hub, gateway.alerts, self._say)
        gateway.outputs.extend(outputs_of(config, sources))
        most = min(config.http.most_connections, room_for_files())
        server = _Uvicorn(
            self._uvicorn(App(gateway, time.monotonic)),
            lambda make: Listener(
                self.socket, most, make, self._context, self._say, serves=served(config.http)
            ),
        )

        def ended() -> None:
            if stop.requested and not gateway.is_stopping:
                gateway.is_stopping = True
                hub.close()  # wakes all streams, which end
                server.should_exit = True

        def woken(fileno: int) -> None:
            stop.woken(fileno)
            ended()

        for fileno in stop.filenos:
            loop.add_reader(fileno, woken, fileno)

        def alerted() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(hub.alerted)

        def alerts_come(state: FeedState) -> None:
            with suppress(RuntimeError):  # as above
                loop.call_soon_threadsafe(hub.alerts_away, state.message)

        # Once for all streams: each call from another thread may wait for the interpreter's lock.
        gateway.alerts.listen(alerted)
        feed.on_state = alerts_come
        feed.start()
        for output in gateway.outputs:
            output.start()
        try:
            server.on_started = serves
            ended()
            await server.serve()
        finally:
            for fileno in stop.filenos:
                loop.remove_reader(fileno)
            gateway.is_stopping = True
            hub.close()
            feed.stop()
            for output in gateway.outputs:
                output.end_soon()
            for output in gateway.outputs:
                output.stop()
            gateway.queries.close()
            gateway.operators.close()
            feed.join(THREADS_S)
            watching.join(THREADS_S)

    def _made(self) -> Gateway:
        config = self._config
        console = config.console
        hub = Hub(
            Rooms(console.stale_s * 1e3),
            self._alerts,
            every_s=console.every_s,
            slo=Slo(99.0, console.latency_ms),
        )
        connect = self._connections
        return Gateway(
            config,
            self._folder,
            hub,
            self._alerts,
            AlertFeed(connect.client, self._alerts, config.alerts.filter, self._say),
            self._access,
            Askers("query", config.queries.at_once, connect.client),
            Operators(
                [each.address for each in config.every_operator],
                [partial(connect.operator, n) for n in range(len(config.every_operator))],
            ),
            [],
            self._say,
            release() or version("sanderling"),
            static=read_static(),
        )

    def _uvicorn(self, app: App) -> uvicorn.Config:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",  # a line for each request that is none would fill a disk
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        config.load()
        return config

    def close(self) -> None:
        """Close the log and the socket."""
        self.socket.close()
        self._alerts.close()


class _Uvicorn(uvicorn.Server):
    """Without its signal handlers and its sockets, with a word when it serves, and not with endless
    patience."""

    on_started: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self, config: uvicorn.Config, listen: Callable[[Callable[[], Protocol]], Listener]
    ) -> None:
        super().__init__(config)
        self._listen = listen
        self._listener: Listener | None = None
        self._patience = Patience()

    async def on_tick(self, counter: int) -> bool:
        """Every tenth of a second; whether to end."""
        if counter % LOOK_TICKS == 0:
            connections = tuple(self.server_state.connections)
            for each in self._patience.over(connections, time.monotonic()):
                each.transport.abort()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The gateway has its own."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets or [])
        self._listener = self._listen(
            lambda: Protocol(self.config, self.server_state, self.lifespan.state)
        )
        self.on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._listener is not None:
            self._listener.close()
        await super().shutdown(sockets)


def bound(config: GatewayConfig) -> socket.socket:
    """The socket that is listened on; OSError in one line."""
    http = config.http
    try:
        [(family, kind, proto, _, address), *_] = socket.getaddrinfo(
            http.host, http.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        made = socket.socket(family, kind, proto)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            # Not before it serves: until then connections are refused.
        except OSError:
            made.close()
            raise
    except OSError as error:
        other = "; [http] listen names another port" if error.errno == errno.EADDRINUSE else ""
        raise OSError(f"cannot listen on {http.listen}: {error.strerror}{other}") from None
    return made


def tls_context(config: GatewayConfig, folder: Path) -> ssl.SSLContext | None:
    """The certificate in use; ConfigError in one line."""
    http = config.http
    if not http.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(folder / http.certificate, folder / http.private_key)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or str(error)
        raise ConfigError(f"{http.certificate} and {http.private_key}: {why}") from None
    return context
