"""CURVE key files: reading and creating them, and choosing the keys for a handshake.

    python -m agent.net.keys new NAME

creates NAME.secret (mode 0600) and NAME.public. A key file has one key per line, in Z85; `#` begins
a comment, and a key's comment may contain ``made 2026-11-21`` and ``expires 2027-11-21``. A file
may hold two keys of one party: the first is current, the other is the previous or the next one, so
that a rotation needs no restart (docs/understand/trust.md).
"""

# ruff: noqa: PTH123 - pathlib takes 0.6 MiB of an edge agent

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import zmq

from agent.wire.config import ConfigError

MAX_KEYS: Final = 2
MAX_FILE: Final = 65_536
_Z85: Final = re.compile(r"[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")
_DATE: Final = re.compile(r"\b(made|expires) (\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\dZ)?)(?=[\s,;]|$)")


class Pair(NamedTuple):
    """A key pair of this process, both halves in Z85."""

    public: str
    secret: str

    @classmethod
    def of(cls, secret: str) -> Pair:
        """The pair with this secret half."""
        return cls(zmq.curve_public(secret.encode()).decode(), secret)

    def __repr__(self) -> str:
        return f"<key {self.public}>"  # never the secret, wherever it is printed


class Handshake(NamedTuple):
    """The key pair that a connecting socket presents, and the server key that it expects."""

    own: Pair
    server: str

    def apply(self, socket: zmq.Socket[Any]) -> None:
        """Use it for the socket's connections from now on."""
        socket.setsockopt(zmq.CURVE_SERVERKEY, self.server.encode())
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.own.public.encode())
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.own.secret.encode())


def handshakes(own: Sequence[Pair], servers: Sequence[str]) -> list[Handshake]:
    """All pairs that may succeed while either side rotates its key, the likeliest first."""
    return [Handshake(pair, server) for pair in own for server in servers]


class KeyFiles(NamedTuple):
    """Paths of this process's secret key file, and of the file with the peer's public keys."""

    key: str
    server_keys: str

    def handshake(self, attempt: int) -> Handshake:
        """The handshake for the `attempt`-th connection; rereads both files. ConfigError."""
        found = handshakes(read_secrets(self.key), read_publics(self.server_keys))
        return found[attempt % len(found)]

    def names(self, server: str) -> bool:
        """Whether this is one of the peer's public keys now. ConfigError."""
        return server in read_publics(self.server_keys)


def read_secrets(path: str) -> tuple[Pair, ...]:
    """The key pairs of a file, the current one first; ConfigError also if others may read it."""
    return tuple([Pair.of(secret) for secret in keys_in(_text(path, secret=True), path)])


def read_publics(path: str, most: int = MAX_KEYS) -> tuple[str, ...]:
    """The public keys of a file; ConfigError."""
    return keys_in(_text(path, secret=False), path, most)


def keys_in(text: str, path: str, most: int = MAX_KEYS) -> tuple[str, ...]:
    """The keys of a file's text, the current one first; ConfigError names `path`."""
    keys = []
    for number, key, _ in _lines(text):
        if not _Z85.fullmatch(key) or not _decodes(key):
            raise ConfigError(f"{path}: line {number} is no key (40 characters of Z85)")
        keys.append(key)
    if not keys:
        raise ConfigError(f"{path}: no key in it; python -m agent.net.keys new NAME makes one")
    if len(keys) > most:
        raise ConfigError(f"{path}: {len(keys)} keys; at most {most} are valid at a time")
    if len(set(keys)) < len(keys):
        raise ConfigError(f"{path}: a key stands there twice")
    return tuple(keys)


def dates_in(text: str) -> tuple[dict[str, float], ...]:
    """The ``made`` and ``expires`` dates in each key's comment, in seconds since the epoch. Invalid
    dates are ignored, as in any comment."""
    return tuple([dict(_dates(comment)) for _, _, comment in _lines(text)])


def expiry(path: str) -> float | None:
    """When the current key of a secret file should be replaced, in seconds since the epoch; None if
    the file does not state it or cannot be read now. The key keeps working after that time."""
    try:
        dates = dates_in(_text(path, secret=True))
    except ConfigError:
        return None
    return dates[0].get("expires") if dates else None


def _dates(comment: str) -> Iterator[tuple[str, float]]:
    for word, date in _DATE.findall(comment):
        with suppress(ValueError):  # not a valid date
            time = datetime.fromisoformat(date)
            yield word, (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def secret_text(path: str) -> str:
    """The text of a file that only its owner may read; otherwise ConfigError."""
    return _text(path, secret=True)


def _lines(text: str) -> Iterator[tuple[int, str, str]]:
    """(number, key, comment) of each line with a key."""
    for number, line in enumerate(text.split("\n"), 1):
        # A key may contain `#`, so a comment begins a line or follows a blank.
        key, *comment = re.split(r"(?:^|\s)#(?=\s|$)", line, maxsplit=1)
        key = key.strip()
        if key and (not key.startswith("#") or _Z85.fullmatch(key)):
            yield number, key, "".join(comment)


def _decodes(key: str) -> bool:
    """Whether the Z85 text decodes: a group of five characters may exceed 32 bits."""
    try:
        zmq.curve_public(key.encode())
    except zmq.ZMQError:
        return False
    return True


@contextmanager
def regular_file(path: str) -> Iterator[tuple[int, os.stat_result]]:
    """The descriptor and status of a file that is open for reading; OSError, ConfigError for what
    is no regular file."""
    # Non-blocking, as opening a FIFO would wait for a writer.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path}: not a regular file")
        yield file, status
    finally:
        os.close(file)


def _text(path: str, *, secret: bool) -> str:
    try:
        with regular_file(path) as (file, status):
            if secret:
                _refuse_open_doors(path, status)
            return os.read(file, MAX_FILE).decode("ascii")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: no key file, which is plain text") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _refuse_open_doors(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"{path}: a secret key of user {status.st_uid}; it must belong to the user that runs "
            f"this (chown {os.geteuid()} {path}) or to root"
        )
    if status.st_mode & 0o077:
        raise ConfigError(
            f"{path}: others may read or change this secret key "
            f"(mode {stat.S_IMODE(status.st_mode):04o}); chmod 600 {path}"
        )


def new(name: str) -> Pair:
    """Write a new pair to NAME.secret and NAME.public; OSError, including FileExistsError."""
    public, secret = (half.decode() for half in zmq.curve_keypair())
    for suffix, key, mode in (("secret", secret, 0o600), ("public", public, 0o644)):
        file = os.open(f"{name}.{suffix}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(file, "w", encoding="ascii") as opened:
            opened.write(f"{key}\n")
    return Pair(public, secret)


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    if len(arguments) != 2 or arguments[0] != "new":
        sys.stderr.write("error: usage: python -m agent.net.keys new NAME\n")
        return 2
    try:
        pair = new(arguments[1])
    except OSError as error:
        sys.stderr.write(f"error: {error.filename}: {error.strerror}\n")
        return 1
    sys.stdout.write(f"{arguments[1]}.secret and {arguments[1]}.public: {pair.public}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
