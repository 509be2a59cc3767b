"""Configuration of a gateway (`sanderling-gateway --config`): every key, with unit and default."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from agent.gateway.output_config import GatewayOutputs
from agent.wire.base import MAX_TIMEOUT_MS, Area, Name, Text
from agent.wire.config import (
    HIGHEST_PORT,
    ConfigError,
    Count,
    File,
    Positive,
    Section,
    load,
    require_usable,
)

MAX_MASTERS: Final = 16
MAX_OPERATORS: Final = 64
MAX_SERVICES: Final = 8
MAX_HOSTS: Final = 64
# A name, an IPv4 address, or an IPv6 address in brackets.
HOST: Final = r"^([A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])$(?!\n)"
Host = Annotated[str, Meta(pattern=HOST)]
Address = Annotated[str, Meta(max_length=64)]


def is_loopback(host: str) -> bool:
    """Whether a host, without brackets, is this one."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class GatewayName(Section, frozen=True):
    """The gateway itself."""

    name: Annotated[Name, Meta(description="What it is called in topics of MQTT.")] = "gateway"
    outputs: Annotated[
        File,
        Meta(
            description="File with further sections `[mqtt]`, `[line_protocol]`, `[[ntfy]]` and "
            "`[email]` (relative: to the config file). It need not be there; empty: none."
        ),
    ] = ""


class GatewayMaster(Section, frozen=True):
    """The master that is asked, by its public socket."""

    addresses: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            max_length=MAX_MASTERS,
            description="Public sockets of masters: the first reachable one is used.",
        ),
    ] = ("tcp://127.0.0.1:5700",)
    key: Annotated[
        File,
        Meta(description="File with this client's secret CURVE key (mode 0600); empty: no keys."),
    ] = ""
    keys: Annotated[
        tuple[File, ...],
        Meta(
            max_length=MAX_MASTERS,
            description="Files with the masters' public keys, in the order of the addresses.",
        ),
    ] = ()

    def __post_init__(self) -> None:
        for address in self.addresses:
            require_usable(address, "master.addresses", keyed=bool(self.key))
        if bool(self.key) != bool(self.keys):
            raise ValueError("master.key and master.keys go together")
        if self.keys and len(self.keys) != len(self.addresses):
            raise ValueError(
                f"master.keys names {len(self.keys)} files for {len(self.addresses)} addresses"
            )


class GatewayOperator(Section, frozen=True):
    """A master's operator socket, for the views of nodes and placement; by default none. Those of
    further IADs stand in `[[operators]]`."""

    address: Annotated[
        str, Meta(description="The master's operator socket; empty: these views stay empty.")
    ] = ""
    key: Annotated[
        File, Meta(description="File with an operator's secret CURVE key; empty: no keys.")
    ] = ""
    keys: Annotated[File, Meta(description="File with the master's public keys.")] = ""

    def __post_init__(self) -> None:
        if self.address:
            require_usable(self.address, "operator.address", keyed=bool(self.key))
        if bool(self.key) != bool(self.keys):
            raise ValueError("operator.key and operator.keys go together")
        if self.key and not self.address:
            raise ValueError("operator.key is of no use without operator.address")


class GatewayHttp(Section, frozen=True):
    """Address of the page and the API. Beyond this host only with TLS or behind a proxy."""

    listen: Annotated[
        str,
        Meta(
            pattern=r"^([^:/\s]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$",
            description="host:port to listen on.",
        ),
    ] = "127.0.0.1:8080"
    certificate: Annotated[
        File,
        Meta(description="File with the certificate chain (PEM) for https; empty: http."),
    ] = ""
    private_key: Annotated[
        File, Meta(description="File with the certificate's private key (PEM, mode 0600).")
    ] = ""
    hosts: Annotated[
        tuple[Host, ...],
        Meta(
            max_length=MAX_HOSTS,
            description="Names, without port, by which browsers may reach the gateway, beside "
            "the address listened on. Requests for others are refused.",
        ),
    ] = ()
    proxies: Annotated[
        tuple[Address, ...],
        Meta(
            max_length=MAX_HOSTS,
            description="IP addresses of reverse proxies that provide https. With any, only they "
            "may connect from beyond this host.",
        ),
    ] = ()
    most_connections: Annotated[
        int,
        Meta(
            ge=8,
            le=65_536,
            description="Open connections; fewer if the system's limit of open files is lower. "
            "Beyond it the host that has most loses its newest idle one.",
        ),
    ] = 2_000

    def __post_init__(self) -> None:
        host, port = self.host, self.port
        if not 1 <= port <= HIGHEST_PORT:
            raise ValueError(f"http.listen = {self.listen!r}: ports go from 1 to {HIGHEST_PORT}")
        if bool(self.certificate) != bool(self.private_key):
            raise ValueError("http.certificate and http.private_key go together")
        for proxy in self.proxies:
            try:
                ip_address(proxy)
            except ValueError:
                raise ValueError(f"http.proxies: {proxy!r} is no IP address") from None
        if self.is_local:
            return
        if not self.certificate and not self.proxies:
            raise ValueError(
                f"http.listen = {self.listen!r} leaves this host without TLS; set "
                "http.certificate and http.private_key, or http.proxies, or listen on "
                f"127.0.0.1:{port}"
            )
        if not self.hosts and host in ("0.0.0.0", "::"):  # noqa: S104 - refused, not bound
            raise ValueError(
                f"http.listen = {self.listen!r} is every address of this host; set http.hosts to "
                "the names that browsers use"
            )

    @property
    def host(self) -> str:
        """The host listened on, without brackets."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port listened on."""
        return int(self.listen.rpartition(":")[2])

    @property
    def url(self) -> str:
        """Address of the page: by the first of the names configured, else by the address."""
        is_secure = bool(self.certificate or self.proxies)
        scheme = "https" if is_secure else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        if not self.hosts:
            return f"{scheme}://{host}:{self.port}"
        is_usual = bool(self.proxies) or self.port == (443 if is_secure else 80)
        return f"{scheme}://{self.hosts[0]}" + ("" if is_usual else f":{self.port}")

    @property
    def is_local(self) -> bool:
        """Whether nobody beyond this host can connect."""
        return is_loopback(self.host)


class GatewayAccess(Section, frozen=True):
    """Rights to read and to query."""

    file: Annotated[
        File,
        Meta(
            min_length=1,
            description="Tokens, as hashes (mode 0600; relative: to the config file). "
            "`fleet gateway token` writes it; it is read again on change.",
        ),
    ] = "access.json"
    rate_per_s: Annotated[
        Positive, Meta(le=10_000.0, description="Requests a second of one token, by default.")
    ] = 20.0
    most_streams: Annotated[
        int, Meta(ge=1, le=65_536, description="Open event streams of all tokens.")
    ] = 1_000
    most_streams_each: Annotated[
        int, Meta(ge=1, le=65_536, description="Open event streams of one token, or browser.")
    ] = 100
    session_days: Annotated[
        Positive, Meta(le=365.0, description="Days after which a browser needs a new link.")
    ] = 30.0


class GatewayConsole(Section, frozen=True):
    """What is watched while somebody looks at the page, or an output takes readings."""

    services: Annotated[
        tuple[Name, ...],
        Meta(
            max_length=MAX_SERVICES,
            description="Services watched; empty: all that this client may ask, as the master "
            "says, of more than 32 those first that give what no other gives.",
        ),
    ] = ()
    areas: Annotated[
        tuple[Area, ...],
        Meta(max_length=64, description="Areas watched, with those below; empty: all."),
    ] = ()
    every_s: Annotated[
        float, Meta(ge=0.5, le=3_600.0, description="Seconds between two rounds of the watch.")
    ] = 5.0
    latency_ms: Annotated[
        float,
        Meta(
            ge=100.0,
            le=MAX_TIMEOUT_MS,
            description="The watch's objective, in milliseconds: a loose one lets all else go "
            "first.",
        ),
    ] = 5_000.0
    stale_s: Annotated[
        Positive, Meta(description="An area without readings for so long counts as stale.")
    ] = 30.0
    plan: Annotated[
        File, Meta(description="The last `fleet plan --json`, shown as *What if*; empty: none.")
    ] = ""
    results: Annotated[
        File,
        Meta(
            description="A demo's `results.json`, shown in *Deadlines* as soon as it is there: the "
            "same load in two orders; empty: none."
        ),
    ] = ""


class GatewayQueries(Section, frozen=True):
    """Queries that come over HTTP."""

    at_once: Annotated[
        int, Meta(ge=1, le=64, description="Queries under way at the master, of all tokens.")
    ] = 8
    at_once_each: Annotated[
        int, Meta(ge=1, le=64, description="Queries under way of one token.")
    ] = 4
    longest_timeout_ms: Annotated[
        float,
        Meta(gt=0.0, le=MAX_TIMEOUT_MS, description="Longest answer timeout that is taken."),
    ] = 60_000.0


class GatewayAlerts(Section, frozen=True):
    """The log of alerts, from which browsers and outputs resume."""

    filter: Annotated[Text, Meta(min_length=1, description="Alerts wanted (subscriptions.md).")] = (
        "*"
    )
    path: Annotated[
        File,
        Meta(min_length=1, description="SQLite file (relative: to the config file)."),
    ] = "alerts.sqlite"
    most: Annotated[
        Count,
        Meta(
            le=10_000_000,
            description="Entries kept, of 256 MiB at most; the oldest go. Messages of topics have "
            "at most half, and go before alerts.",
        ),
    ] = 100_000
    days: Annotated[Positive, Meta(le=3_650.0, description="Days for which they are kept.")] = 30.0


class GatewayConfig(GatewayOutputs, frozen=True):
    """A gateway's file (`sanderling-gateway --config`)."""

    gateway: GatewayName = GatewayName()
    master: GatewayMaster = GatewayMaster()
    operator: GatewayOperator = GatewayOperator()
    operators: Annotated[
        tuple[GatewayOperator, ...],
        Meta(max_length=MAX_OPERATORS, description="Operator sockets of further IADs."),
    ] = ()
    http: GatewayHttp = GatewayHttp()
    access: GatewayAccess = GatewayAccess()
    console: GatewayConsole = GatewayConsole()
    queries: GatewayQueries = GatewayQueries()
    alerts: GatewayAlerts = GatewayAlerts()

    def __post_init__(self) -> None:
        GatewayOutputs.__post_init__(self)
        addresses = [each.address for each in self.every_operator]
        if not all(each.address for each in self.operators):
            raise ValueError("operators: each has an address")
        if twice := [each for each in set(addresses) if addresses.count(each) > 1]:
            raise ValueError(f"operators: {twice[0]} is named twice")

    @property
    def every_operator(self) -> tuple[GatewayOperator, ...]:
        """All operator sockets: that of `[operator]` first, if there is one."""
        return (*((self.operator,) if self.operator.address else ()), *self.operators)


def with_outputs(config: GatewayConfig, folder: Path) -> GatewayConfig:
    """The configuration with the sections of its file of outputs. ConfigError in one line; also for
    a section that stands in both files."""
    path = folder / config.gateway.outputs
    if not config.gateway.outputs or not os.path.lexists(path):  # a link to nothing is a mistake
        return config
    outputs = load(path, GatewayOutputs)
    names = GatewayOutputs.__struct_fields__
    found = {name: given for name in names if (given := getattr(outputs, name))}
    for name in found:
        if getattr(config, name):
            raise ConfigError(f"{path}: {name} stands in the gateway's own file, too")
    return replace(config, **found)
