"""Configuration: parses and validates an agent's TOML file into structs.

The keys are in `edge_config`, `master_config` and `drs_config`; `docs/run/configuration.md` is
generated from them.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

C = TypeVar("C")

# Every number has bounds within which the agents start and run, so that --check is conclusive.
Positive = Annotated[float, Meta(gt=0.0)]
Count = Annotated[int, Meta(ge=1)]
File = Annotated[str, Meta(max_length=4_096, pattern=r"^[^\x00]*$")]

DAY_S: Final = 86_400.0
HIGHEST_PORT: Final = 65_535
MAX_IPC_PATH: Final = 107  # bytes, in Linux's sockaddr_un
# An inventory of a hundred thousand nodes has a third of it.
MAX_FILE: Final = 64 << 20
MAX_LINE: Final = 1_000
# Hosts whose traffic stays on this machine.
LOOPBACK: Final = ("127.0.0.1", "localhost")
# Every address of a machine: one listens there, but connects to none by it.
EVERY_ADDRESS: Final = ("*", "0.0.0.0", "[::]", "::")  # noqa: S104 - refused, not bound
HOST: Final = re.compile(r"\[[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\]|[A-Za-z0-9:][A-Za-z0-9_.%:-]*")


class ConfigError(ValueError):
    """The file is unusable; the text is one line that gives the error and the remedy."""


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections."""


class Trust(Section, frozen=True):
    """Keys. Without them every address must stay on this host."""

    key: Annotated[
        File,
        Meta(
            description="File with this agent's secret CURVE key (mode 0600, at most two, the "
            "current one first); read again on change; empty: no keys."
        ),
    ] = ""
    allow: Annotated[
        File,
        Meta(description="Allow-list: whose keys may connect, and as what. Read again on change."),
    ] = ""

    def __post_init__(self) -> None:
        if self.allow and not self.key:
            raise ValueError("trust.allow is of no use without a key of this agent; set trust.key")


class Metrics(Section, frozen=True):
    """Metrics for Prometheus."""

    address: Annotated[
        str,
        Meta(
            pattern=r"^([^:/\s]+:[0-9]{1,5})?$",
            description="host:port of the HTTP page /metrics, such as 127.0.0.1:9701; empty: none.",
        ),
    ] = ""

    def __post_init__(self) -> None:
        port = self.address.rpartition(":")[2]
        if self.address and not 1 <= int(port) <= HIGHEST_PORT:
            raise ValueError(
                f"metrics.address = {self.address!r}: ports go from 1 to {HIGHEST_PORT}"
            )


def require_usable(address: str, key: str, *, keyed: bool = False) -> None:
    """Raise ValueError unless `address` is usable; without keys it must be on this host."""
    kind, _, rest = address.partition("://")
    if kind == "ipc":
        if not rest.isprintable() or not 0 < len(rest.encode()) <= MAX_IPC_PATH or rest == "*":
            raise ValueError(
                f"{key} = {address!r} is not ipc://path with a path of at most {MAX_IPC_PATH} bytes"
            )
        return
    host, _, port = rest.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if kind != "tcp" or not host or not digits or not 1 <= int(port) <= HIGHEST_PORT:
        raise ValueError(
            f"{key} = {address!r} is neither tcp://host:port, with a port from 1 to "
            f"{HIGHEST_PORT}, nor ipc://path"
        )
    if not keyed and host not in LOOPBACK:
        raise ValueError(
            f"{key} = {address!r} leaves this host without keys; set trust.key, or use "
            f"tcp://127.0.0.1:{port} or an ipc:// address"
        )


def require_reachable(address: str, key: str, *, keyed: bool = False) -> None:
    """Raise ValueError unless `address` is usable, and others may connect to it by that."""
    require_usable(address, key, keyed=keyed)
    kind, _, rest = address.partition("://")
    host = rest.rpartition(":")[0]
    if kind == "tcp" and (host in EVERY_ADDRESS or not HOST.fullmatch(host)):
        raise ValueError(
            f"{key} = {address!r} names no host to which others can connect; write the name or "
            "address by which they reach it"
        )


def require_guarded(address: str, key: str, trust: Trust) -> None:
    """Raise ValueError unless an agent with `trust` may listen on `address`: beyond this host only
    with keys and an allow-list."""
    require_usable(address, key, keyed=bool(trust.key))
    kind, _, rest = address.partition("://")
    if kind == "ipc":
        if trust.key and rest.startswith("@"):
            raise ValueError(
                f"{key} = {address!r} has no file mode that protects it; use ipc://path"
            )
        return
    if trust.key and not trust.allow and rest.rpartition(":")[0] not in LOOPBACK:
        raise ValueError(
            f"{key} = {address!r} leaves this host without an allow-list; set trust.allow"
        )


def require_keys(address: str, key: str, keys: object, trust: Trust) -> None:
    """Raise ValueError unless an agent with `trust` may connect to `address`; the config key `key`
    has the public keys there."""
    if not address.startswith("tcp://"):
        return
    if trust.key and not keys:
        raise ValueError(f"{key} is missing: with trust.key, {address} is only reached with keys")
    if keys and not trust.key:
        raise ValueError(f"{key} is of no use without a key of this agent; set trust.key")


def load(path: str | os.PathLike[str], kind: type[C]) -> C:
    """Read a TOML file into `kind`; ConfigError in one line for any error."""
    text = ""
    try:
        text = _content(path).decode()
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except RecursionError:
        raise ConfigError(f"{path}: lists or tables are nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        from agent.wire.config_words import misplaced  # only an error needs it

        raise ConfigError(f"{path}: {misplaced(text, error)}") from None
    except ConfigError:
        raise
    except ValueError:  # Python's limit
        raise ConfigError(f"{path}: a number has more than 4,300 digits") from None
    return parse(data, kind, str(path))


def _content(path: str | os.PathLike[str]) -> bytes:
    """A file's bytes. OSError; ConfigError for a pipe, whose writer an agent that reloads the file
    would wait for, and for more than any file has."""
    # pathlib costs the edge agent 0.6 MiB.
    with open(path, "rb", opener=_at_once) as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise ConfigError(f"{path}: it is a pipe; name a file")
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise ConfigError(f"{path}: it has more than {MAX_FILE >> 20} MiB")
    return content


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def parse(data: dict[str, Any], kind: type[C], source: str) -> C:
    """Convert a parsed TOML table into `kind`; ConfigError names the invalid key."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        from agent.wire.config_words import explain, refuse_unknown  # only an error needs it

        text, _, path = str(error).partition(" - at `$")
        # A misspelt name is a better message than the key that is missing because of it.
        line = refuse_unknown(data, kind) or explain(text, kind, path.rstrip("`"), data)
        if len(line) > MAX_LINE:  # it quotes a key or a value
            line = f"{line[:MAX_LINE]} …"
        raise ConfigError(f"{source}: {line}") from None
