"""Configuration of a gateway's outputs: every key, with unit and default."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from agent.wire.base import Name, Text
from agent.wire.config import HIGHEST_PORT, File, Section
from agent.wire.webhook_config import (
    MAX_URL,
    Authorities,
    GiveUpS,
    TimeoutS,
    require_receiver,
    target,
)

MAX_NTFY: Final = 16
MAX_RECIPIENTS: Final = 16

Url = Annotated[str, Meta(max_length=MAX_URL)]
User = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$(?!\n)")]
# No line break, which would begin another header.
MailAddress = Annotated[str, Meta(max_length=254, pattern=r"^[!-?A-~]+@[!-?A-~]+$(?!\n)")]
# Without messages of topics, which come by the same way and are no alerts.
ALERTS: Final = 'kind in ("raised", "cleared", "lost")'
Filter = Annotated[
    Text, Meta(min_length=1, description="Alerts that it is given (subscriptions.md).")
]


class GatewayMqtt(Section, frozen=True):
    """Readings and alerts to an MQTT broker, with Home Assistant's discovery."""

    address: Annotated[Url, Meta(description="mqtt://host:1883, or mqtts://host:8883 with TLS.")]
    user: Annotated[User, Meta(description="User at the broker; empty: none.")] = ""
    password_file: Annotated[
        File,
        Meta(description="File with the password (mode 0600, one line; relative: to the config)."),
    ] = ""
    ca: Authorities = ""
    protocol: Annotated[
        Literal["5", "3.1.1"],
        Meta(description="MQTT's version; 3.1.1 for a broker that knows no 5."),
    ] = "5"
    discovery: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_.-]{0,64}$(?!\n)",
            description="Home Assistant's discovery prefix; empty: no discovery.",
        ),
    ] = "homeassistant"
    filter: Filter = "*"
    every_s: Annotated[
        float,
        Meta(ge=1.0, le=600.0, description="An area's readings are published at most so often."),
    ] = 30.0
    heartbeat_s: Annotated[
        float, Meta(ge=1.0, le=3_600.0, description="Readings that stay the same: so often.")
    ] = 60.0
    deadband_celsius: Annotated[
        float, Meta(ge=0.0, le=100.0, description="Change of a temperature that counts, in °C.")
    ] = 0.2
    deadband_percent: Annotated[
        float, Meta(ge=0.0, le=100.0, description="Change of a percentage that counts.")
    ] = 1.0
    forget_s: Annotated[
        float,
        Meta(
            ge=60.0,
            le=30 * 86_400.0,
            description="Seconds for which an area is missing before its device is removed.",
        ),
    ] = 3_600.0

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.address)
            usable = bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or parts.scheme not in ("mqtt", "mqtts") or parts.path.strip("/"):
            raise ValueError(
                "mqtt.address is neither mqtt://host:port nor mqtts://host:port, with a port from "
                f"1 to {HIGHEST_PORT}"
            )
        if parts.username is not None or parts.password is not None:
            raise ValueError("mqtt.address has a user in it; use mqtt.user and mqtt.password_file")
        if self.ca and not self.tls:
            raise ValueError("mqtt.ca is of no use without mqtts://")
        if self.password_file and not self.user:
            raise ValueError("mqtt.password_file is of no use without mqtt.user")

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.address.startswith("mqtts:")

    @property
    def host(self) -> str:
        """The broker's host."""
        return urlsplit(self.address).hostname or ""

    @property
    def port(self) -> int:
        """The broker's port."""
        return urlsplit(self.address).port or (8883 if self.tls else 1883)


class GatewayLines(Section, frozen=True):
    """Readings in line protocol, for InfluxDB, Telegraf or Grafana Live."""

    url: Annotated[
        Url, Meta(description="Where lines are posted to, such as http://host:8086/api/v2/write?….")
    ]
    authorization_file: Annotated[
        File,
        Meta(
            description="File with the header Authorization, such as `Token …` or `Bearer …` (mode "
            "0600, one line); empty: none."
        ),
    ] = ""
    ca: Authorities = ""
    timeout_s: TimeoutS = 10.0

    def __post_init__(self) -> None:
        require_receiver("line_protocol", self.url, self.ca)


class GatewayNtfy(Section, frozen=True):
    """Alerts to a topic of ntfy."""

    name: Annotated[Name, Meta(description="What it is called here.")]
    url: Annotated[Url, Meta(description="The topic: https://ntfy.sh/…, or your own server's.")]
    token_file: Annotated[
        File, Meta(description="File with an access token (mode 0600, one line); empty: none.")
    ] = ""
    priority: Annotated[int, Meta(ge=1, le=5, description="Of an alert that is raised.")] = 4
    filter: Filter = ALERTS
    ca: Authorities = ""
    timeout_s: TimeoutS = 10.0
    give_up_s: GiveUpS = 86_400.0

    def __post_init__(self) -> None:
        found = require_receiver("ntfy", self.url, self.ca, f" of {self.name}").path
        if not found.strip("/") or "/" in found.strip("/") or "?" in found:
            raise ValueError(f"ntfy.url of {self.name} is not https://server/topic")

    @property
    def topic(self) -> str:
        """The topic's name."""
        return target(self.url).path.strip("/")


class GatewayEmail(Section, frozen=True):
    """Alerts by e-mail, several in one message where they come together."""

    server: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_.-]{1,253}:[0-9]{1,5}$(?!\n)",
            description="host:port of the mail server, such as smtp.example.com:587.",
        ),
    ]
    sender: Annotated[MailAddress, Meta(description="The address that they come from.")]
    to: Annotated[
        tuple[MailAddress, ...],
        Meta(min_length=1, max_length=MAX_RECIPIENTS, description="Whom they go to."),
    ]
    security: Annotated[
        Literal["starttls", "tls", "none"],
        Meta(description="starttls (port 587), tls (port 465), or none: on this host only."),
    ] = "starttls"
    user: Annotated[User, Meta(description="User at the server; empty: none.")] = ""
    password_file: Annotated[
        File, Meta(description="File with the password (mode 0600, one line).")
    ] = ""
    filter: Filter = ALERTS
    every_s: Annotated[
        float, Meta(ge=0.0, le=86_400.0, description="At most one message in so many seconds.")
    ] = 60.0
    ca: Authorities = ""
    timeout_s: TimeoutS = 30.0
    give_up_s: GiveUpS = 86_400.0

    def __post_init__(self) -> None:
        if not 1 <= self.port <= HIGHEST_PORT:
            raise ValueError(f"email.server: ports go from 1 to {HIGHEST_PORT}")
        if self.security == "none" and self.host not in ("127.0.0.1", "localhost"):
            raise ValueError('email.security = "none" is for a server on this host only')
        if self.password_file and not self.user:
            raise ValueError("email.password_file is of no use without email.user")

    @property
    def host(self) -> str:
        """The server's host."""
        return self.server.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self.server.rpartition(":")[2])


class GatewayOutputs(Section, frozen=True):
    """Sections of outputs, in a gateway's file or in that which `gateway.outputs` names."""

    mqtt: GatewayMqtt | None = None
    line_protocol: GatewayLines | None = None
    ntfy: Annotated[tuple[GatewayNtfy, ...], Meta(max_length=MAX_NTFY)] = ()
    email: GatewayEmail | None = None

    def __post_init__(self) -> None:
        if len({each.name for each in self.ntfy}) < len(self.ntfy):
            raise ValueError("ntfy: two have the same name")
