"""Source of logs: a program that reads them on their host, locally or over SSH.

A **program** is a module of `fleet.on_host`, which is sent to the host (`fleet/ssh/remote.py`);
for a folder of this machine the same module is imported and called. It has two functions:

    def place(asked: dict) -> str
    def frames(asked: dict) -> Iterator[tuple[dict, bytes]]

`asked` is what its taker wants, and `config`, the agent's configuration file on that host. The
first tells what is read: on a host, root becomes its owner first (`fleet/on_host/owner.py`). The
second yields frames: a header that is JSON, and at most `MAX_BYTES` bytes. Between two frames it
may take its time (the connection says that it lives). An exception ends it with one line for the
operator; what came before stays.

A **taker** says what it wants and takes the frames as they come, in their order. It keeps what is
complete as soon as it is, since the next frame may never come. Those of masters are
`fleet.lake.pull.records.RecordsTaker(lake, iad, since_ms)`, those of nodes
`fleet.lake.pull.history.HistoryTaker(lake, iad, node, since_ms, now_ms)`; `since_ms` may be None,
both times are ms since 1970. A taker loads its host's state (`fleet.lake.pull.state`) when it is
made, and saves it after what it tells of has landed (`fleet.lake.pull.landing_files`).

Over SSH the frames are lines of JSON, their bytes packed by zlib and base64, each with the SHA-256
of its bytes. SFTP would be simpler and cannot do it: the files belong to the agents' own user and
are closed to whoever logs in, who may use sudo and whom sftp-server does not ask; and a history
that is in use cannot be copied as a file.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from fleet.lake.pull.counts import Counts
from fleet.ssh.errors import HostError

if TYPE_CHECKING:
    from fabric import Connection

Header = dict[str, Any]
Take = Callable[[Header, bytes], None]
# A frame that only says that the host lives.
BEAT: Final[Header] = {"at": "beat"}
# Maximum bytes of a frame; fleet/on_host/logs.py does not split them.
MAX_BYTES: Final = 1 << 20


class Taker(Protocol):
    """Receiver of one host's logs."""

    counts: Counts  # `bytes` grows whenever something lands
    received: int  # bytes of pieces, also of those that never land: limits go by these
    more: bool  # something was left because of `max_bytes`

    @property
    def under_way(self) -> bool:
        """Whether a piece has begun to arrive, and is not complete."""
        ...

    @property
    def program(self) -> str:
        """The module that reads them, such as ``fleet.on_host.history``."""
        ...

    def asked(self, max_bytes: int) -> dict[str, Any]:
        """The request, without `config`, for at most about `max_bytes`."""
        ...

    def take(self, header: Header, data: bytes) -> None:
        """Take a frame. HostError, OSError end the transfer."""
        ...

    def end(self) -> None:
        """All frames have come."""
        ...

    def close(self) -> None:
        """The transfer has ended, for any reason; discard what is incomplete."""
        ...


class Source(Protocol):
    """A host, or the folder of a local run."""

    def run(self, program: str, asked: dict[str, Any], take: Take) -> None:
        """Run the module `program` at the source and pass its frames to `take`. HostError."""
        ...


class Here:
    """An agent whose configuration is a file of this machine."""

    def __init__(self, config: str) -> None:
        self._config = config

    def run(self, program: str, asked: dict[str, Any], take: Take) -> None:
        """As Source has it."""
        frames = importlib.import_module(program).frames({**asked, "config": self._config})
        while True:
            try:
                header, data = next(frames)
            except StopIteration:
                return
            except Exception as error:
                raise HostError("failed", told(error)) from error
            take(header, data)


class There:
    """A host that is logged in to."""

    def __init__(self, connection: Connection, config: str) -> None:
        self._connection = connection
        self._config = config

    def run(self, program: str, asked: dict[str, Any], take: Take) -> None:
        """As `Source.run`; HostError if the connection breaks."""
        from fleet.ssh.remote import run_program

        asked = {**asked, "config": self._config}
        request = {"do": "logs", "program": program, "asked": asked}
        run_program(
            self._connection,
            request,
            on_line=lambda line: take(*unpacked(line)),
            on_beat=lambda: take(BEAT, b""),
        )


def unpacked(line: dict[str, Any]) -> tuple[Header, bytes]:
    """Header and bytes of a line. HostError if it was damaged on the way."""
    try:
        inflater = zlib.decompressobj()
        # A few compressed bytes may expand to gigabytes.
        data = inflater.decompress(base64.b64decode(line["data"]), MAX_BYTES + 1)
        header = line["header"]
        whole = inflater.eof and hashlib.sha256(data).hexdigest() == line["sha256"]
    except (KeyError, TypeError, ValueError, zlib.error):
        whole, header, data = False, None, b""
    if not whole or not isinstance(header, dict) or len(data) > MAX_BYTES:
        raise HostError("lost", "what came is damaged; nothing of it was kept")
    return header, data


def told(error: Exception) -> str:
    """An exception of a program in one line, in the format of fleet/on_host/logs.py."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror or error}"
    return str(error) or type(error).__name__
