"""`fleet gateway`: links and tokens, in the file that the gateway reads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from msgspec import Struct

from agent.gateway import tokens
from agent.gateway.config import GatewayConfig
from agent.gateway.tokens import AccessError, Role
from agent.wire.config import ConfigError, load
from fleet.common import exits
from fleet.terminal import output, screen
from fleet.terminal.units import counted


class TokenRow(Struct, frozen=True):
    """A token, without itself."""

    name: str
    role: Role
    made_ms: int
    expires_ms: int | None
    rate_per_s: float | None


class TokenList(Struct, frozen=True):
    """Output of `token list --json`."""

    tokens: list[TokenRow]
    sessions: int


def link(config: Path, role: Role | None) -> int:
    """Print a link that opens the page once."""
    read, path = _read(config)
    role = role or ("operator" if read.operator.address else "asker")
    if not tokens.is_gateway_running(str(config.parent / read.alerts.path)):
        # Its port may be another program's, which would be given the code.
        return exits.fail(
            f"no gateway runs with {config}; start it: "
            f"sanderling-gateway --background --config {quote(str(config))}",
            exits.FAILED,
        )

    def make() -> int:
        code = tokens.create_link(path, role)
        sys.stdout.write(f"{read.http.url}/login?code={code}\n")
        output.say("it opens the page once, within ten minutes")
        return exits.DONE

    return _changed(path, make)


def create(config: Path, name: str, role: Role, days: float | None, rate: float | None) -> int:
    """Print a new token."""
    _, path = _read(config)

    def make() -> int:
        made = tokens.create_token(path, name, role, days=days, rate_per_s=rate)
        sys.stdout.write(f"{made}\n")
        output.say("keep it now: it is not kept here, and is not shown again")
        return exits.DONE

    return _changed(path, make)


def revoke(config: Path, name: str) -> int:
    """Take a token away."""
    _, path = _read(config)

    def make() -> int:
        tokens.revoke_token(path, name)
        output.say(f"revoked {name}: it is refused from now on")
        return exits.DONE

    return _changed(path, make)


def end_sessions(config: Path) -> int:
    """Have every browser need a new link."""
    _, path = _read(config)

    def make() -> int:
        output.say(f"{tokens.end_sessions(path)} browsers need a new link")
        return exits.DONE

    return _changed(path, make)


def show(config: Path, *, as_json: bool) -> int:
    """Print whose tokens there are."""
    _, path = _read(config)
    found = tokens.read(path)
    alive = [each for each in found.sessions if each.expires_ms > tokens.wall_ms()]
    rows = [
        TokenRow(each.name, each.role, each.made_ms, each.expires_ms, each.rate_per_s)
        for each in found.tokens
    ]
    if as_json:
        output.write_json(TokenList(rows, len(alive)))
        return exits.DONE
    console = screen.console()
    for row in rows:
        until = "" if row.expires_ms is None else f", until {_date(row.expires_ms)}"
        screen.line(console, f"{row.name}: {row.role}, made {_date(row.made_ms)}{until}")
    screen.line(console, f"{counted(len(rows), 'token')}, {counted(len(alive), 'browser')}")
    return exits.DONE


def _read(config: Path) -> tuple[GatewayConfig, str]:
    """The gateway's configuration, and its file of tokens. ConfigError."""
    if not config.exists():
        raise ConfigError(f"there is no {config}; name the gateway's configuration by --config")
    read = load(config, GatewayConfig)
    return read, str(config.parent / read.access.file)


def _changed(path: str, make: Callable[[], int]) -> int:
    try:
        return make()
    except AccessError as error:
        return exits.fail(str(error), exits.USAGE)
    except OSError as error:
        return exits.fail(f"{path}: {error.strerror or error}", exits.FAILED)


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1e3, UTC).strftime("%Y-%m-%d")
