"""Access to a gateway: tokens of programs, one-time links, and the sessions that links open.

The file has only hashes: whoever reads it can do nothing with it. `fleet gateway` and the gateway
change it under a lock, each time as a whole, and the gateway reads it again on change.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Annotated, Final, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from agent.net.file_watcher import Watched
from agent.net.keys import regular_file
from agent.runtime.sqlite import is_held
from agent.wire.base import Name
from agent.wire.config import ConfigError

Role = Literal["viewer", "asker", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

PREFIX: Final = "sand_"  # by which a token is recognised where it should not be
BYTES: Final = 32
# Of a link, which is valid for minutes and once: with the address it fits a line of a terminal.
LINK_BYTES: Final = 20
LINK_S: Final = 600.0
MAX_TOKENS: Final = 1_000
MAX_LINKS: Final = 32
MAX_SESSIONS: Final = 1_000
MAX_FILE: Final = 4 << 20
# No longer text is hashed.
MAX_TOKEN: Final = 128

T = TypeVar("T")
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
Rate = Annotated[float, Meta(gt=0.0, le=10_000.0)]


class Token(Struct, frozen=True, omit_defaults=True):
    """A program's token. Without `expires_ms` it is good until it is revoked."""

    name: Name
    role: Role
    sha256: Hash
    made_ms: int
    expires_ms: int | None = None
    rate_per_s: Rate | None = None


class Link(Struct, frozen=True):
    """A link that opens one session."""

    role: Role
    sha256: Hash
    expires_ms: int


class Session(Struct, frozen=True):
    """A browser that came by a link."""

    role: Role
    sha256: Hash
    made_ms: int
    expires_ms: int


class AccessFile(Struct, frozen=True):
    """Contents of the file."""

    tokens: tuple[Token, ...] = ()
    links: tuple[Link, ...] = ()
    sessions: tuple[Session, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether nobody has had access yet."""
        return not (self.tokens or self.sessions)


class Caller(Struct, frozen=True):
    """The sender of a request. `name` is empty for a browser; `key` tells callers apart."""

    name: str
    role: Role
    key: str
    expires_ms: int | None = None
    rate_per_s: float | None = None

    def may(self, role: Role) -> bool:
        """Whether this is a role that includes `role`."""
        return ROLES.index(self.role) >= ROLES.index(role)


class AccessError(ValueError):
    """The change is not possible; one line says why."""


def wall_ms() -> int:
    """Milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def create_token(
    path: str, name: str, role: Role, *, days: float | None = None, rate_per_s: float | None = None
) -> str:
    """Add a token; returns it, which is the only time that it is seen. AccessError, OSError."""
    made, now_ms = _new(), wall_ms()
    expires_ms = None if days is None else now_ms + round(days * 86_400_000)
    try:
        token = msgspec.convert(
            {
                "name": name,
                "role": role,
                "sha256": hash_of(made),
                "made_ms": now_ms,
                "expires_ms": expires_ms,
                "rate_per_s": rate_per_s,
            },
            Token,
        )
    except msgspec.ValidationError as error:
        raise AccessError(f"no token: {error}") from None

    def add(before: AccessFile) -> tuple[AccessFile, str]:
        if any(each.name == name for each in before.tokens):
            raise AccessError(f"there is a token {name} already; revoke it, or take another name")
        if len(before.tokens) >= MAX_TOKENS:
            raise AccessError(f"{MAX_TOKENS} tokens are the most; revoke one")
        return replace(before, tokens=(*before.tokens, token)), made

    return change(path, add)


def revoke_token(path: str, name: str) -> None:
    """Take a token away; AccessError if there is none, OSError."""

    def remove(before: AccessFile) -> tuple[AccessFile, None]:
        left = tuple([each for each in before.tokens if each.name != name])
        if len(left) == len(before.tokens):
            raise AccessError(f"there is no token {name}")
        return replace(before, tokens=left), None

    change(path, remove)


def end_sessions(path: str) -> int:
    """Have every browser need a new link; returns how many sessions there were. OSError."""
    return change(
        path, lambda before: (replace(before, sessions=(), links=()), len(before.sessions))
    )


def is_gateway_running(alerts: str) -> bool:
    """Whether a gateway runs whose log of alerts that is; also if this user cannot tell."""
    return is_held(f"{alerts}.lock") is not False


def create_link(path: str, role: Role, lasting_s: float = LINK_S) -> str:
    """Make the code of a one-time link. OSError, ConfigError."""
    code, now_ms = _new(LINK_BYTES), wall_ms()
    link = Link(role, hash_of(code), now_ms + round(lasting_s * 1e3))

    def add(before: AccessFile) -> tuple[AccessFile, str]:
        valid = [each for each in before.links if each.expires_ms > now_ms]
        return replace(before, links=(*valid[-MAX_LINKS + 1 :], link)), code

    return change(path, add)


def open_session(path: str, code: str, lasting_s: float) -> tuple[str, Role] | None:
    """Use a link up; returns a new session's secret and role, None if the code is not valid.
    OSError if the file cannot be written: the link is not used up then."""
    now_ms, used, made = wall_ms(), hash_of(code), _new()

    def use(before: AccessFile) -> tuple[AccessFile, tuple[str, Role] | None]:
        valid = [each for each in before.links if each.expires_ms > now_ms]
        link = next((each for each in valid if each.sha256 == used), None)
        if link is None:
            return before, None
        links = tuple([each for each in valid if each is not link])
        session = Session(link.role, hash_of(made), now_ms, now_ms + round(lasting_s * 1e3))
        alive = [each for each in before.sessions if each.expires_ms > now_ms]
        sessions = (*alive[-MAX_SESSIONS + 1 :], session)
        return replace(before, links=links, sessions=sessions), (made, link.role)

    return change(path, use)


def hash_of(secret: str) -> str:
    """Entry of a token, a session's secret or a link's code in the file."""
    return sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _new(count: int = BYTES) -> str:
    return PREFIX + secrets.token_urlsafe(count)


# --- the file ------------------------------------------------------------------------------------


def read(path: str) -> AccessFile:
    """The file's content; that of a new one if it is not there. ConfigError in one line."""
    text = b""
    try:
        with regular_file(path) as (file, status):
            if status.st_mode & 0o077:
                raise ConfigError(f"{path}: others may use it; chmod 600 {path}")
            while len(text) <= MAX_FILE and (more := os.read(file, 1 << 20)):
                text += more
        return msgspec.json.decode(text, type=AccessFile)
    except FileNotFoundError:
        return AccessFile()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        remedy = "restore it, or remove it and make new links and tokens"
        raise ConfigError(f"{path} is damaged ({error}); {remedy}") from None


def change(path: str, how: Callable[[AccessFile], tuple[AccessFile, T]]) -> T:
    """Change the file under its lock; what `how` returns beside the new content. ConfigError,
    OSError: the file is as before."""
    with _locked(path):
        before = read(path)
        after, result = how(before)
        if after != before:
            _write(path, msgspec.json.format(msgspec.json.encode(after), indent=1) + b"\n")
        return result


@contextmanager
def _locked(path: str) -> Iterator[None]:
    lock = f"{path}.lock"
    is_new = not os.path.exists(lock)  # noqa: PTH110 - beside os.open
    holder = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if is_new:
            _leave_to_owner(holder, path)
        fcntl.flock(holder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(holder)


def _write(path: str, text: bytes) -> None:
    new = f"{path}.new"
    try:
        with open(new, "wb", opener=_private) as file:
            _leave_to_owner(file.fileno(), path)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)  # noqa: PTH105 - beside os.open
        # Or a power cut brings a token back that was revoked.
        folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)  # noqa: PTH120 - as above
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError:
        if os.path.exists(new):  # noqa: PTH110 - as above
            os.unlink(new)  # noqa: PTH108 - as above
        raise


def _leave_to_owner(file: int, path: str) -> None:
    """Give a file that root writes to its former owner, or the folder's: the gateway, not root,
    reads and changes it, too."""
    if os.geteuid():
        return
    there = path if os.path.exists(path) else os.path.dirname(path) or "."  # noqa: PTH110, PTH120
    found = os.stat(there)  # noqa: PTH116 - as above
    os.fchown(file, found.st_uid, found.st_gid)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_TRUNC | os.O_CLOEXEC, 0o600)


class Access:
    """Owners of secrets, by the file at `path`. A broken file leaves the previous version in
    force; `problem` says what is wrong with it."""

    def __init__(self, path: str, *, now_ms: Callable[[], int] = wall_ms) -> None:
        self.path = path
        self.problem = ""
        self._now_ms = now_ms
        self._file = Watched(path, read)
        self._index()

    @property
    def is_new(self) -> bool:
        """Whether nobody has had access yet."""
        return self._file.value.is_new

    def find(self, secret: str) -> Caller | None:
        """The owner of this token or session; None if it is not valid now."""
        if len(secret) > MAX_TOKEN:
            return None
        self.refresh()
        return self._valid(self._by_hash.get(hash_of(secret)))

    def still(self, caller: Caller) -> bool:
        """Whether a caller found before is still valid, in the same role."""
        self.refresh()
        return self._valid(self._by_hash.get(caller.key)) == caller

    def has_link(self, code: str) -> bool:
        """Whether this is the code of a link that was not used yet."""
        self.refresh()
        return hash_of(code) in self._links

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        try:
            if self._file.refresh():
                self._index()
                self.problem = ""
        except ConfigError as error:
            self.problem = str(error)

    def _valid(self, caller: Caller | None) -> Caller | None:
        if caller is None:
            return None
        if caller.expires_ms is not None and caller.expires_ms <= self._now_ms():
            return None
        return caller

    def _index(self) -> None:
        file = self._file.value
        found = [
            Caller(each.name, each.role, each.sha256, each.expires_ms, each.rate_per_s)
            for each in file.tokens
        ]
        found += [Caller("", each.role, each.sha256, each.expires_ms) for each in file.sessions]
        self._by_hash = {each.key: each for each in found}
        self._links = {each.sha256 for each in file.links}
