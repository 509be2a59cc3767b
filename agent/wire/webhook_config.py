"""Configuration of a master's webhooks, and validation of their URLs."""

from __future__ import annotations

from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta

from agent.wire.base import Name, Text
from agent.wire.config import HIGHEST_PORT, File, Positive, Section

MAX_URL = 2_048
# Per master, as each has a thread.
MAX_WEBHOOKS = 16


# Keys that all receivers have, also a gateway's.
Authorities = Annotated[
    File,
    Meta(
        description="File with the certificates (PEM) that the receiver's is checked with; empty: "
        "the system's."
    ),
]
TimeoutS = Annotated[
    float, Meta(ge=0.1, le=300.0, description="Seconds that the receiver has to answer.")
]
GiveUpS = Annotated[
    Positive,
    Meta(
        le=30 * 86_400.0,
        description="Seconds after which one that the receiver refuses (4xx) is given up.",
    ),
]


class Target(NamedTuple):
    """The target of a request: `path` includes the query string."""

    tls: bool
    host: str
    port: int
    path: str


class Receiver(Section, frozen=True):
    """A receiver of notifications by HTTP POST."""

    name: Annotated[Name, Meta(description="What it is called here, and in what is posted.")]
    url: Annotated[
        str, Meta(max_length=MAX_URL, description="http://… or https://…; said to nobody.")
    ]
    filter: Annotated[
        Text, Meta(min_length=1, description="What is posted: a filter (subscriptions.md).")
    ]
    ca: Authorities = ""
    timeout_s: TimeoutS = 10.0
    longest_pause_s: Annotated[
        float,
        Meta(ge=0.1, le=3_600.0, description="Pauses between attempts double from 1 s to these."),
    ] = 300.0
    give_up_s: GiveUpS = 86_400.0

    def __post_init__(self) -> None:
        require_receiver("webhook", self.url, self.ca, f" of {self.name}")


class MasterWebhook(Receiver, frozen=True, kw_only=True):
    """URL to which notifications are posted."""

    secret: Annotated[
        File,
        Meta(
            min_length=1,
            description="File with the signing key in Base64 (mode 0600, at most two, one a line; "
            "relative: to the config file).",
        ),
    ]


def require_receiver(section: str, url: str, ca: str, of: str = "") -> Target:
    """The target of a section's `url`. ValueError without the URL, which may hold a secret; also
    for a `ca` that would check nothing."""
    try:
        found = target(url)
    except ValueError as error:
        raise ValueError(f"{section}.url{of}: {error}") from None
    if ca and not found.tls:
        raise ValueError(f"{section}.ca{of} is of no use without https://")
    return found


def target(url: str) -> Target:
    """Parse `url` into its target. ValueError describes the error without the URL, whose path may
    be a secret."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("not plain ASCII without blanks; write the others as %XX")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"no host and port; ports go from 1 to {HIGHEST_PORT}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("neither http://host/path nor https://host/path")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a user stands in it; what is posted is signed, and needs none")
    if parts.fragment:
        raise ValueError("the part from # on is never sent; leave it out")
    if port == 0:
        raise ValueError(f"ports go from 1 to {HIGHEST_PORT}")
    tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(tls, parts.hostname, port or (443 if tls else 80), path)
