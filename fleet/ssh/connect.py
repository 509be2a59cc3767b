"""SSH connection to one host: only its pinned host key and the fleet's key; user configuration
is ignored."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import paramiko
from fabric import Config, Connection
from paramiko.common import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    cMSG_GLOBAL_REQUEST,
)
from paramiko.packet import Packetizer

from fleet.inventory.effective import jump_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory, JumpHost, Master, Node
from fleet.inventory.parties import HostOf
from fleet.ssh.errors import HostError, Kind
from fleet.ssh.identity import identity
from fleet.ssh.jump_hosts import JumpHosts

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HostError", "Login", "login_of", "open_host", "open_login", "pinned_keys"]

# AES-GCM needs no separate MAC: twice the throughput of paramiko's default choice.
CIPHERS: Final = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
# After so many connect_s without an acknowledgement a connection is lost.
UNACKNOWLEDGED: Final = 2
# TCP does not notice that a host is gone if a device in between keeps the connection open (NAT, a
# proxy, QEMU's network). So after ALIVE_S of silence the host is asked for a reply; after this many
# unanswered requests the connection is lost, and callers that wait for it get an error.
ALIVE_S: Final = 10.0
UNANSWERED: Final = 4
SSH_PORT: Final = 22
# OpenSSH's own limit. A host is told that it may send packets of 32 KiB.
MAX_PACKET: Final = 256 << 10
# A hundred lines of 255 bytes, as the protocol has them at most, are a tenth.
MAX_BANNER: Final = 256 << 10
TOO_LONG: Final = f"more than {MAX_BANNER:,} bytes before the protocol"

# Errors are raised; paramiko's threads would also print them on stderr.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False


class Login(NamedTuple):
    """How one host is reached."""

    address: str
    port: int
    user: str
    key: Path  # the operator's private key
    connect_s: float
    jump: Login | None = None  # through which

    @property
    def known_as(self) -> str:
        """Its name in known_hosts."""
        return self.address if self.port == SSH_PORT else f"[{self.address}]:{self.port}"


class _Packets(Packetizer):
    """Counts any packet as a sign of life. Takes no larger ones than are allowed, and of what comes
    before the protocol only so much: paramiko takes gigabytes of anybody who answers."""

    unanswered = 0
    before = 0  # bytes of lines before the protocol

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > MAX_PACKET:
            raise paramiko.SSHException(f"a packet of more than {MAX_PACKET:,} bytes")
        return bytes(super().read_all(n, check_rekey))

    def _read_timeout(self, timeout: float) -> bytes:
        found = bytes(super()._read_timeout(timeout))  # type: ignore[misc]  # private
        self.before += len(found)
        if self.before > MAX_BANNER:
            raise paramiko.SSHException(TOO_LONG)
        return found

    def read_message(self) -> tuple[int, paramiko.Message]:
        found = super().read_message()
        self.unanswered = 0
        return found


def _in_window(feed: str) -> Callable[[paramiko.Channel, paramiko.Message], None]:
    """A channel's method `feed`, for a host that sends no more than it may: paramiko keeps whatever
    comes until it is read, which standard error is not before the end."""

    def take(channel: paramiko.Channel, message: paramiko.Message) -> None:
        getattr(channel, feed)(message)
        if len(channel.in_buffer) + len(channel.in_stderr_buffer) > channel.in_window_size:
            raise paramiko.SSHException("it sends more than it may")

    return take


class BoundedTransport(paramiko.Transport):
    """Takes no more than it must, and notices when the host is gone."""

    _preferred_ciphers = CIPHERS

    # Nobody but a transport of one's own comes before what paramiko does with data.
    _channel_handler_table: ClassVar = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]  # noqa: SLF001
        MSG_CHANNEL_DATA: _in_window("_feed"),
        MSG_CHANNEL_EXTENDED_DATA: _in_window("_feed_extended"),
    }

    def __init__(self, sock: socket.socket, **options: Any) -> None:
        super().__init__(sock, packetizer_class=_Packets, **options)

    def watch(self) -> None:
        """Start noticing when the host is gone. paramiko's own keepalive does not wait for an
        answer."""
        self.packetizer.set_keepalive(ALIVE_S, self._ask)

    def _ask(self) -> None:
        """Called in the reading thread: an exception raised here ends the connection."""
        packets = self.packetizer
        assert isinstance(packets, _Packets)
        if packets.unanswered >= UNANSWERED:
            raise paramiko.SSHException(f"no sign of life for {ALIVE_S * (UNANSWERED + 1):g} s")
        packets.unanswered += 1
        question = paramiko.Message()
        question.add_byte(cMSG_GLOBAL_REQUEST)
        question.add_string("keepalive@openssh.com")
        question.add_boolean(True)  # demands an answer, if only a refusal
        self._send_user_message(question)  # type: ignore[attr-defined] # channels use it, too


class _Connection(Connection):  # type: ignore[misc] # fabric has no types
    """A connection that releases its jump host when it is closed."""

    held: ExitStack | None = None

    def close(self) -> None:
        try:
            super().close()
        finally:
            held, self.held = self.held, None
            if held is not None:
                held.close()


JUMP_HOSTS: Final = JumpHosts()


def login_of(folder: Folder, fleet: Inventory, host: HostOf) -> Login:
    """How to log in to `host` according to the inventory."""
    if fleet.ssh.key:
        key = folder.root / Path(fleet.ssh.key).expanduser()
    else:
        from fleet.keys.store import Store

        key = Store(folder).operator_key

    def login(entry: Node | Master | JumpHost, through: Login | None = None) -> Login:
        port, user = entry.port or fleet.ssh.port, entry.user or fleet.ssh.user
        return Login(entry.address, port, user, key, fleet.ssh.connect_s, through)

    jump = jump_of(fleet, host)
    return login(host.entry, login(jump) if jump else None)


@contextmanager
def open_host(folder: Folder, fleet: Inventory, host: HostOf) -> Iterator[Connection]:
    """An open connection to `host`, as a context manager. HostError, also for errors inside the
    block."""
    login = login_of(folder, fleet, host)
    with open_login(login, folder.known_hosts) as connection:
        yield connection


@contextmanager
def open_login(login: Login, known_hosts: Path) -> Iterator[Connection]:
    """An open connection by `login`, if the host shows its key from `known_hosts`. HostError."""
    connection = connect(login, known_hosts)
    try:
        yield connection
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise error_of(error, login, connected=True) from error
    finally:
        with suppress(Exception):  # closing a connection that may be broken already
            connection.close()


@contextmanager
def through(login: Login, known_hosts: Path) -> Iterator[paramiko.Channel]:
    """A socket-like object connected to the sshd of a host behind a jump host. HostError."""
    with _jump_host(login, known_hosts) as jump:
        try:
            channel = jump.transport.open_channel(
                "direct-tcpip", (login.address, login.port), ("", 0), timeout=login.connect_s
            )
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise error_of(error, login, connected=False) from error
        with channel:
            yield channel


@contextmanager
def _jump_host(login: Login, known_hosts: Path) -> Iterator[Connection]:
    way = login.jump
    assert way is not None
    jump = JUMP_HOSTS.at((way, known_hosts))
    try:
        connection = jump.take(lambda: connect(way, known_hosts))
    except HostError as error:
        line = f"on the way to {login.known_as}: {error}"
        raise HostError(error.kind, line, remedy=error.remedy) from error
    try:
        yield connection
    finally:
        jump.give_back()


def connect(login: Login, known_hosts: Path) -> Connection:
    """An open connection, to be closed by the caller. HostError."""
    if login.jump is None:
        return _connect(login, known_hosts, None)
    with ExitStack() as held:
        jump = held.enter_context(_jump_host(login, known_hosts))
        connection = _connect(login, known_hosts, jump)
        connection.held = held.pop_all()
        return connection


def _connect(login: Login, known_hosts: Path, jump: Connection | None) -> _Connection:
    pins = pinned_keys(known_hosts, login.known_as)
    if not pins and not known_hosts.exists():  # the same line for all hosts
        how = "`fleet keys init` makes it, and every key that is missing"
        raise HostError("key_unknown", f"there is no file {known_hosts}", remedy=how)
    if not pins:
        raise HostError("key_unknown", f"no key of {login.known_as} in {known_hosts}")
    try:
        return _opened(login, pins, jump)
    except paramiko.BadHostKeyException as error:
        # A host with a master and a node has a line for each; of several keys of one kind, paramiko
        # takes the last.
        if error.key not in pins:
            raise error_of(error, login, connected=False) from error
        return _opened(login, [error.key], jump)


def _opened(login: Login, pins: Sequence[paramiko.PKey], jump: Connection | None) -> _Connection:
    """An open connection to a host that shows one of `pins`; of several pins of one kind the last
    counts. HostError; paramiko.BadHostKeyException."""
    with identity(login.key) as key:
        return _opened_with(key, login, pins, jump)


def _opened_with(
    key: paramiko.PKey, login: Login, pins: Sequence[paramiko.PKey], jump: Connection | None
) -> _Connection:
    connection = _Connection(
        login.address,
        user=login.user,
        port=login.port,
        config=Config(lazy=True, overrides={"load_ssh_configs": False}),
        connect_timeout=login.connect_s,
        gateway=jump,
        connect_kwargs={
            "pkey": key,
            "allow_agent": False,
            "look_for_keys": False,
            "banner_timeout": login.connect_s,
            "auth_timeout": login.connect_s,
            "channel_timeout": login.connect_s,
            "transport_factory": BoundedTransport,
        },
    )
    # Fabric's own policy accepts any host key.
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    for pin in pins:
        connection.client.get_host_keys().add(login.known_as, pin.get_name(), pin)
    try:
        connection.open()
    except (paramiko.SSHException, EOFError, OSError) as error:
        with suppress(Exception):  # as above; its own close() is for those that are open
            connection.client.close()
            connection.close()
        if isinstance(error, paramiko.BadHostKeyException):
            raise
        raise error_of(error, login, connected=False) from error
    connection.transport.watch()
    with suppress(OSError, AttributeError):  # not a TCP socket, or a system without this option
        connection.transport.sock.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNACKNOWLEDGED * login.connect_s * 1e3)
        )
    return connection


def pinned_keys(known_hosts: Path, name: str) -> Sequence[paramiko.PKey]:
    """The keys of `name` in a known_hosts file without hashed names and patterns; () if there are
    none. HostError for an invalid line."""
    try:
        text = known_hosts.read_text()
    except FileNotFoundError:
        return ()
    found = []
    for line in text.splitlines():
        names, _, rest = line.strip().partition(" ")
        if names.startswith(("#", "@")) or name not in names.split(","):
            continue
        entry = None
        with suppress(paramiko.SSHException, paramiko.hostkeys.InvalidHostKey, ValueError):
            entry = paramiko.hostkeys.HostKeyEntry.from_line(f"{name} {rest}")
        if entry is None or entry.key is None:
            raise HostError("key_unknown", f"{known_hosts} has a line for {name} that is no key")
        found.append(entry.key)
    return found


def error_of(error: BaseException, login: Login, *, connected: bool) -> HostError:
    """The HostError for an exception of paramiko or a socket."""
    if isinstance(error, HostError):
        return error
    where = f"{login.user}@{login.known_as}"
    if isinstance(error, paramiko.BadHostKeyException):
        return HostError("key_changed", f"{login.known_as} shows another host key than the pinned")
    if isinstance(error, paramiko.AuthenticationException):
        return HostError("auth", f"{where} does not take the key {login.key}")
    if str(error) == "key cannot be used for signing":
        return HostError("failed", f"the SSH agent did not sign with {login.key}")
    kind: Kind = "lost" if connected else "dead"
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        if any(isinstance(cause, ConnectionRefusedError) for cause in error.errors.values()):
            return HostError("refused", f"{login.known_as} refuses the connection")
        return HostError("dead", f"no way to {login.known_as}")
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
        return HostError("failed", f"no common algorithm with {login.known_as}: {error}")
    if isinstance(error, TimeoutError):
        waited = f"no answer from {login.known_as} within {login.connect_s:g} s"
        return HostError(kind, waited)
    if isinstance(error, socket.gaierror):
        return HostError("dead", f"{login.address} has no address: {error.strerror}")
    if not connected and login.jump and (stuck := _stuck(error, login, login.jump)):
        return stuck
    if not connected and (silence := _silence(error, login)):
        return HostError(kind, silence)
    what = "the connection was lost" if connected else f"no SSH at {login.known_as}"
    why = (isinstance(error, OSError) and error.strerror) or str(error)
    return HostError(kind, f"{what}: {why}" if why else what)


def _stuck(error: BaseException, login: Login, jump: Login) -> HostError | None:
    """Why a jump host cannot reach a host; None for another error."""
    if isinstance(error, paramiko.ChannelException):
        if error.code == OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED:
            what = f"the jump host {jump.known_as} leads nowhere: its sshd forwards no connections"
            return HostError("failed", f"{what} (AllowTcpForwarding)")
        what = f"the jump host {jump.known_as} finds no way to {login.known_as}"
        return HostError("dead", f"{what}: {error.text}")
    if str(error).startswith("Timeout opening channel"):
        waited = f"no answer from {login.known_as} within {login.connect_s:g} s"
        return HostError("dead", f"{waited}, through the jump host {jump.known_as}")
    return None


def _silence(error: BaseException, login: Login) -> str:
    """The explanation if no SSH server sent its banner; empty for another error. That happens when
    a host is starting, hangs, or is down behind a device that accepts its connections (NAT, a
    proxy, QEMU's network)."""
    said = str(error)
    if said.startswith("Indecipherable protocol version") or said.endswith(TOO_LONG):
        return f"what answers at {login.known_as} is no SSH server"
    is_late = said == "No existing session"  # paramiko waited for connect_s, and goes on
    if not is_late and not said.startswith("Error reading SSH protocol banner"):
        return ""
    if is_late or isinstance(error.__context__, TimeoutError):
        return (
            f"{login.known_as} takes the connection, then no word of SSH within "
            f"{login.connect_s:g} s: it is down behind something that answers for it, or it hangs"
        )
    return (
        f"{login.known_as} takes the connection and closes it without a word: it is down behind "
        "something that answers for it, or its sshd is only starting"
    )
