"""`fleet keys adopt`: pins a host's present SSH key once the operator vouches for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from fleet.common import exits
from fleet.inventory.effective import jump_of, port_of
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.inventory.selection import one_host
from fleet.keys import ssh
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import Store
from fleet.terminal import output

MAX_KNOWN_HOSTS: Final = 16 << 20
# A socket-like object whose other end is a host's sshd.
Way = Callable[[], AbstractContextManager[Any]]


class OtherKeyError(KeyStoreError):
    """The host shows another key than the operator expected."""

    status = exits.REFUSED


def run(folder: Folder, name: str, fingerprint: str | None, file: Path | None) -> int:
    """Pin the key of a host or a jump host; returns the exit status."""
    fleet = load(folder)
    store = Store(folder)
    jump = next((each for each in fleet.jump if each.name == name), None)
    if jump is not None:
        address, port, way = jump.address, jump.port or fleet.ssh.port, None
    else:
        host = one_host(fleet, name)
        if host.is_local:
            raise KeyStoreError(f"{name} runs on this machine, where nobody logs in")
        if store.revoked(host.party):
            raise KeyStoreError(
                f"{name} was revoked: `fleet replace {name}` sets its successor up; if it is in "
                f"nobody else's hands, `fleet keys reinstate {name}` first"
            )
        address, port, way = host.address, port_of(fleet, host), way_to(folder, fleet, host)
    if file is not None:
        public = _of_file(file, address, port)
    else:
        public = shown_by(address, port, fleet.ssh.connect_s, way)
        if not _vouched(name, public, fingerprint):
            return exits.NOTHING
    if jump is not None:
        store.adopt_jump(fleet, name, public)
    else:
        store.adopt(fleet, host, public)
    sys.stdout.write(f"{name} is pinned to {ssh.fingerprint(public)}\n")
    store.require_pins(fleet)
    return exits.DONE


def way_to(folder: Folder, fleet: Inventory, host: HostOf) -> Way | None:
    """The connection through a jump host to a host behind it; None for a host that is reached
    directly."""
    if jump_of(fleet, host) is None:
        return None
    from fleet.ssh.connect import login_of, through

    return lambda: through(login_of(folder, fleet, host), folder.known_hosts)


def _vouched(name: str, public: str, fingerprint: str | None) -> bool:
    found = ssh.fingerprint(public)
    if fingerprint is None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise KeyStoreError(
                f"{name} shows {found}; if its own console says so too (ssh-keygen -lf "
                f"/etc/ssh/ssh_host_ed25519_key.pub), give --fingerprint {found}"
            )
        output.say(f"{name} shows {public.split(' ', maxsplit=1)[0]} {found}")
        question = "Does its own console say so (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub)?"
        return output.confirm(question, yes=False)
    if not ssh.same_fingerprint(fingerprint, public):
        raise OtherKeyError(
            f"{name} shows {found}, not {fingerprint}; nothing was pinned: somebody may be in "
            "between"
        )
    return True


def _of_file(file: Path, address: str, port: int) -> str:
    try:
        with file.open("rb") as opened:  # which may be a pipe
            data = opened.read(MAX_KNOWN_HOSTS + 1)
        if len(data) > MAX_KNOWN_HOSTS:
            raise KeyStoreError(f"{file}: it has more than {MAX_KNOWN_HOSTS >> 20} MiB")
        found = ssh.find_known(data.decode(errors="replace"), address, port)
    except OSError as error:
        raise KeyStoreError(f"{file}: {error.strerror}") from None
    if not found:
        raise KeyStoreError(f"{file} has no key of {ssh.pattern(address, port)}")
    return found[0]


def shown_by(address: str, port: int, patience_s: float, way: Way | None = None) -> str:
    """The public key that the server at an address proves to have, of the preferred kind. `way`
    connects to it; if left out, directly. KeyStoreError."""
    import socket

    import paramiko

    from fleet.ssh.connect import BoundedTransport
    from fleet.ssh.errors import HostError

    try:
        reached = way() if way else socket.create_connection((address, port), patience_s)
        with reached as connection:
            transport = BoundedTransport(connection)
            try:
                transport.get_security_options().key_types = [
                    "ssh-ed25519",
                    "ecdsa-sha2-nistp256",
                    "ecdsa-sha2-nistp384",
                    "ecdsa-sha2-nistp521",
                    "rsa-sha2-512",
                    "rsa-sha2-256",
                ]
                transport.start_client(timeout=patience_s)
                key = transport.get_remote_server_key()
            finally:
                transport.close()
    except (OSError, EOFError, paramiko.SSHException) as error:
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "is it on, and is its address right?"
        raise KeyStoreError(f"no SSH at {ssh.pattern(address, port)}: {said}; {hint}") from None
    except HostError as error:
        raise KeyStoreError(str(error)) from None
    return f"{key.get_name()} {key.get_base64()}"
