"""Configuration: every key of an agent's TOML file, with unit and default, in one place.

`docs/configuration.md` is generated from these structs.
"""

from __future__ import annotations

import os
import tomllib
from typing import Annotated, Any, Final, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct, field

from agent.wire.messages import MAX_AREAS, Area, Name, Policy

C = TypeVar("C")

# Every number has bounds, within which the agents start and run: --check is to find out.
Positive = Annotated[float, Meta(gt=0.0)]
Count = Annotated[int, Meta(ge=1)]
File = Annotated[str, Meta(max_length=4_096, pattern=r"^[^\x00]*$")]

DAY_S: Final = 86_400.0
HIGHEST_PORT: Final = 65_535
LONGEST_IPC_PATH: Final = 107  # bytes, in Linux's sockaddr_un
# What stays on this host. Names other than localhost, and IPv6, come with keys.
LOOPBACK: Final = ("127.0.0.1", "localhost")


class ConfigError(ValueError):
    """The file cannot be used; the text is one line that says what is wrong and what to do."""


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections."""


# --- edge node -----------------------------------------------------------------------------------


class EdgeIdentity(Section, frozen=True):
    """Who this node is."""

    name: Annotated[Name, Meta(description="Name of the node, unique in its IAD.")]
    areas: Annotated[
        tuple[Area, ...],
        Meta(
            min_length=1,
            max_length=MAX_AREAS,
            description="Areas that this node's readings stand for.",
        ),
    ]


class EdgeMaster(Section, frozen=True):
    """Where the IAD's master is."""

    address: Annotated[
        str, Meta(description="The master's node socket, such as tcp://127.0.0.1:5701.")
    ]
    reconnect_first_s: Annotated[
        float,
        Meta(ge=0.01, le=3_600.0, description="Seconds to the first reconnection; doubles."),
    ] = 0.2
    reconnect_longest_s: Annotated[
        float,
        Meta(ge=0.01, le=DAY_S, description="Longest pause between reconnections, in seconds."),
    ] = 30.0


class EdgeSensor(Section, frozen=True):
    """What is read, and how often."""

    driver: Annotated[
        str, Meta(description="Name of a sensor driver: a folder of sensors/.", min_length=1)
    ]
    interval_s: Annotated[
        float, Meta(ge=0.01, le=DAY_S, description="Seconds between two readings.")
    ] = 1.0
    options: Annotated[
        dict[str, Any], Meta(description="The driver's own options; see its README.")
    ] = field(default_factory=dict)


class EdgeHistory(Section, frozen=True):
    """The local history of readings."""

    path: Annotated[
        File,
        Meta(
            min_length=1,
            description="SQLite file; a relative path is taken from the config file's folder.",
        ),
    ] = "history.sqlite"
    retention_s: Annotated[
        Positive, Meta(le=3_660 * DAY_S, description="Seconds that a reading is kept.")
    ] = 3 * DAY_S
    group_readings: Annotated[Count, Meta(le=100_000, description="Readings in one row group.")] = (
        600
    )
    commit_s: Annotated[
        Positive, Meta(le=DAY_S, description="Seconds of readings a power cut may lose.")
    ] = 10.0


class EdgePods(Section, frozen=True):
    """Processing units: worker threads that serve one subtask each at a time."""

    count: Annotated[int, Meta(ge=1, le=256, description="Number of pods.")] = 1
    emulate: Annotated[
        str,
        Meta(
            description="Hardware profile whose service time is added to each subtask (pi4, "
            "pi4-powersave, pi3, pi3-boxed); empty: none."
        ),
    ] = ""


class EdgeConfig(Section, frozen=True):
    """An edge node's file (`sanderling-edge --config`)."""

    node: EdgeIdentity
    master: EdgeMaster
    sensor: EdgeSensor
    history: EdgeHistory = EdgeHistory()
    pods: EdgePods = EdgePods()

    def __post_init__(self) -> None:
        require_usable(self.master.address, "master.address")


# --- master --------------------------------------------------------------------------------------


class PoolMember(Section, frozen=True):
    """An IAD of the pool: which areas it offers and where its master is."""

    iad: Annotated[Name, Meta(description="Name of the IAD.")]
    address: Annotated[str, Meta(description="Its master's public socket.")]
    areas: Annotated[
        tuple[Area, ...],
        Meta(min_length=1, description="Areas it offers, as fine as queries shall tell apart."),
    ]


class MasterSockets(Section, frozen=True):
    """Where the master listens: tcp://127.0.0.1:port or ipc://path, until there are keys."""

    public: Annotated[str, Meta(description="For clients and for other masters.")]
    nodes: Annotated[str, Meta(description="For this IAD's edge nodes.")]
    operator: Annotated[str, Meta(description="For this IAD's operator.")]


class MasterScheduling(Section, frozen=True):
    """Deadlines and queues."""

    policy: Annotated[Policy, Meta(description="Queue order: edfq, tedfq, spr or fifo.")] = "edfq"
    window_samples: Annotated[
        Count, Meta(le=65_535, description="Unloaded response times kept per node.")
    ] = 10_000
    # The bounds of window_s and cold_start_ms are those of _core's UnloadedModel.
    window_s: Annotated[
        float, Meta(ge=0.001, le=2_000_000.0, description="Seconds that such a time is kept.")
    ] = 3_600.0
    cold_start_ms: Annotated[
        float,
        Meta(
            ge=0.01,
            le=600_000.0,
            description="Mean unloaded response time assumed before anything was measured, ms.",
        ),
    ] = 100.0
    timeout_factor: Annotated[
        Positive,
        Meta(le=1_000.0, description="Default answer timeout as a multiple of the SLO latency."),
    ] = 4.0


class MasterLiveness(Section, frozen=True):
    """When a node counts as lost."""

    heartbeat_s: Annotated[
        float, Meta(ge=0.01, le=3_600.0, description="Seconds between a node's heartbeats.")
    ] = 1.0
    lost_after: Annotated[
        Count, Meta(le=1_000, description="Heartbeats missed in a row before a node is lost.")
    ] = 3


class MasterRecords(Section, frozen=True):
    """JSON-lines records of queries, tasks and subtasks."""

    directory: Annotated[
        File,
        Meta(description="Folder of the records (relative: to the config file); empty: none."),
    ] = "records"
    rotate_bytes: Annotated[
        int, Meta(ge=4_096, le=2**40, description="A file is closed at this size, in bytes.")
    ] = 16_777_216
    keep_files: Annotated[
        Count, Meta(le=100_000, description="Closed files kept; the oldest go.")
    ] = 16
    flush_s: Annotated[
        Positive, Meta(le=3_600.0, description="Seconds that a record may wait in memory.")
    ] = 1.0


class MasterIdentity(Section, frozen=True):
    """Which IAD this master runs."""

    name: Annotated[Name, Meta(description="Name of the IAD; the pool has an entry for it.")]


class MasterConfig(Section, frozen=True):
    """A master's file (`sanderling-master --config`)."""

    iad: MasterIdentity
    sockets: MasterSockets
    pool: Annotated[
        tuple[PoolMember, ...],
        Meta(
            min_length=1, max_length=500, description="The IADs of the service, this one included."
        ),
    ]
    scheduling: MasterScheduling = MasterScheduling()
    liveness: MasterLiveness = MasterLiveness()
    records: MasterRecords = MasterRecords()

    def __post_init__(self) -> None:
        names = [member.iad for member in self.pool]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the pool names {name} more than once")
        if self.iad.name not in names:
            raise ValueError(f"the pool has no entry for this IAD, {self.iad.name}")
        for kind in ("public", "nodes", "operator"):
            require_usable(getattr(self.sockets, kind), f"sockets.{kind}")
        for member in self.pool:
            require_usable(member.address, f"pool.address of {member.iad}")


def require_usable(address: str, key: str) -> None:
    """Raise ValueError unless `address` can be used, and stays on this host: no key protects it."""
    kind, _, rest = address.partition("://")
    if kind == "ipc":
        if not rest.isprintable() or not 0 < len(rest.encode()) <= LONGEST_IPC_PATH or rest == "*":
            raise ValueError(
                f"{key} = {address!r} is not ipc://path with a path of at most "
                f"{LONGEST_IPC_PATH} bytes"
            )
        return
    host, _, port = rest.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if kind != "tcp" or not host or not digits or not 1 <= int(port) <= HIGHEST_PORT:
        raise ValueError(
            f"{key} = {address!r} is neither tcp://host:port, with a port from 1 to "
            f"{HIGHEST_PORT}, nor ipc://path"
        )
    if host not in LOOPBACK:
        raise ValueError(
            f"{key} = {address!r} leaves this host without keys; use tcp://127.0.0.1:{port} or an "
            "ipc:// address"
        )


def load(path: str | os.PathLike[str], kind: type[C]) -> C:
    """Read a TOML file into `kind`; ConfigError in one line for anything that is wrong."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs the edge agent 0.6 MiB
            data = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    return parse(data, kind, str(path))


def parse(data: dict[str, Any], kind: type[C], source: str) -> C:
    """Convert a parsed TOML table into `kind`; ConfigError names the key that is wrong."""
    _refuse_unknown_keys(data, kind, "", source)
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        where = where.rstrip("`").lstrip(".")
        raise ConfigError(f"{source}: {where + ': ' if where else ''}{text}") from None


def _refuse_unknown_keys(data: dict[str, Any], kind: Any, prefix: str, source: str) -> None:
    known = {f.name: f.type for f in msgspec.structs.fields(kind)}
    for key, value in data.items():
        if key not in known:
            import difflib  # only an error needs it

            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known: {', '.join(known)}"
            raise ConfigError(f"{source}: unknown key {prefix}{key}; {hint}")
        section = section_of(known[key])
        if section is None:
            continue
        for row in value if isinstance(value, list) else [value]:
            if isinstance(row, dict):
                _refuse_unknown_keys(row, section, f"{prefix}{key}.", source)


def section_of(annotation: Any) -> type[Section] | None:
    """The Section inside an annotation such as ``tuple[PoolMember, ...]``, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for a in get_args(annotation) if (found := section_of(a))), None)
