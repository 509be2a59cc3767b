"""`fleet keys adopt`: pin the key that a host has already, once somebody vouches for it."""

from __future__ import annotations

import sys
from pathlib import Path

from fleet import exits, output
from fleet.folder import Folder
from fleet.inventory.effective import port_of
from fleet.inventory.load import load
from fleet.inventory.parties import HostOf
from fleet.inventory.selection import one_host
from fleet.keys import ssh
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import Store


class OtherKeyError(KeyStoreError):
    """A host shows another key than somebody said."""

    status = exits.REFUSED


def run(folder: Folder, name: str, fingerprint: str | None, file: Path | None) -> int:
    """Pin the key; the exit status."""
    fleet = load(folder)
    host = one_host(fleet, name)
    if host.is_local:
        raise KeyStoreError(f"{name} runs on this machine, where nobody logs in")
    store = Store(folder)
    address, port = host.address, port_of(fleet, host)
    if file is not None:
        public = _of_file(file, address, port)
    else:
        public = shown_by(address, port, fleet.ssh.connect_s)
        if not _vouched(host, public, fingerprint):
            return exits.NOTHING
    store.adopt(fleet, host, public)
    sys.stdout.write(f"{name} is pinned to {ssh.fingerprint(public)}\n")
    return exits.DONE


def _vouched(host: HostOf, public: str, fingerprint: str | None) -> bool:
    found = ssh.fingerprint(public)
    if fingerprint is None:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise KeyStoreError(
                f"{host.name} shows {found}; if its own console says so too (ssh-keygen -lf "
                f"/etc/ssh/ssh_host_ed25519_key.pub), give --fingerprint {found}"
            )
        output.say(f"{host.name} shows {public.split(' ', maxsplit=1)[0]} {found}")
        question = "Does its own console say so (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub)?"
        return output.confirm(question, yes=False)
    if not ssh.same_fingerprint(fingerprint, public):
        raise OtherKeyError(
            f"{host.name} shows {found}, not {fingerprint}; nothing was pinned: somebody may be in "
            "between"
        )
    return True


def _of_file(file: Path, address: str, port: int) -> str:
    try:
        found = ssh.find_known(file.read_text(errors="replace"), address, port)
    except OSError as error:
        raise KeyStoreError(f"{file}: {error.strerror}") from None
    if not found:
        raise KeyStoreError(f"{file} has no key of {ssh.pattern(address, port)}")
    return found[0]


def shown_by(address: str, port: int, patience_s: float) -> str:
    """The public key that whoever answers at an address proves to have; the kind that is best of
    those that it has. KeyStoreError."""
    import socket

    import paramiko

    import fleet.hosts.connect  # noqa: F401 - keeps paramiko's threads from printing

    try:
        with socket.create_connection((address, port), patience_s) as connection:
            transport = paramiko.Transport(connection)
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
        said = str(error) or type(error).__name__
        raise KeyStoreError(f"no SSH at {ssh.pattern(address, port)}: {said}") from None
    return f"{key.get_name()} {key.get_base64()}"
