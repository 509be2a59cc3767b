"""The key store: every secret of a fleet, in one private folder.

    keys/curve/<role>-<name>.secret    CURVE, as agents read it: the current key first, one to come
                                       or one before behind it
    keys/curve/master-<name>.public    the same of a master for `fleet`'s own connections
    keys/ssh/host-<name>.key           the host key that a host gets when it is flashed
    keys/ssh/host-<name>.pin           a host key that was adopted, and is pinned instead
    keys/ssh/jump-<name>.pin           the host key of a jump host
    keys/ssh/operator, operator.pub    what `fleet` logs in with
    keys/webhook/<iad>+<name>.secret   what a master signs with what it posts to a webhook
    keys/revoked.json                  who is out, since when and why
    keys/rotation.json                 how far a rotation is

In <name> a ``+`` stands for the ``/``, which no name has. Nothing is cached: another command may
write at any time, and every write replaces one file at once.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

import msgspec

from _core.colocation.model_file import ModelError, decode
from agent.net.keys import KeyFiles
from agent.wire.config import ConfigError
from fleet.common import files
from fleet.inventory.effective import port_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import (
    CLIENT,
    OPERATOR,
    HostOf,
    Party,
    Role,
    WebhookOf,
    hosts,
    parties,
    webhooks,
)
from fleet.keys import curve, ssh
from fleet.keys.curve import CurveKey
from fleet.keys.errors import KeyStoreError
from fleet.keys.private_files import (
    LOCK,
    keep_from_git,
    locked,
    make_private,
    read_private,
    remove_file,
    require_private,
    write_file,
)
from fleet.keys.ssh import HostKey

__all__ = ["HostKey", "KeyStoreError", "Revocation", "Store"]

OPERATOR_KEY: Final = "operator SSH key"
WEBHOOK_BYTES: Final = 32
MAX_MODEL: Final = 16 << 20


class Revocation(msgspec.Struct, frozen=True):
    """A revocation: the party, its keys, the time and the reason."""

    role: Role
    name: str
    keys: tuple[str, ...]
    time: str
    reason: str = ""

    @property
    def party(self) -> Party:
        """Owner of the key."""
        return Party(self.role, self.name)


# Created at import: msgspec crashes if several threads are the first to decode a type.
_REVOCATIONS: Final = msgspec.json.Decoder(tuple[Revocation, ...])


def _now() -> datetime:
    return datetime.now(UTC)


class Store:
    """The keys of the fleet in `folder`. All methods raise KeyStoreError, in one line."""

    def __init__(self, folder: Folder, clock: Callable[[], datetime] = _now) -> None:
        self.folder = folder
        self._root = folder.keys
        self._curve = self._root / "curve"
        self._ssh = self._root / "ssh"
        self._webhook = self._root / "webhook"
        self._clock = clock
        if self._root.exists():
            require_private(self._root)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the write lock of the store."""
        for each in (self._root, self._curve, self._ssh, self._webhook):
            make_private(each)
        keep_from_git(self._root)
        with locked(self._root / LOCK, f"changing the keys in {self._root}"):
            yield

    @contextmanager
    def rotating(self) -> Iterator[None]:
        """Hold the lock of the one command that rotates keys: it has others written meanwhile."""
        make_private(self._root)
        with locked(self._root / ".rotation.lock", "rotating these keys"):
            yield

    def ensure(
        self, fleet: Inventory, *, lifetime: timedelta = curve.LIFETIME
    ) -> list[Party | str | WebhookOf]:
        """Create the keys that are missing, without replacing any, and write known_hosts. Returns
        what was created: parties, host names of SSH keys, webhooks, and OPERATOR_KEY."""
        made: list[Party | str | WebhookOf] = []
        with self.writing():
            for party in parties(fleet):
                if not (there := self.keys(party)):
                    self._write(party, (curve.make(self._clock(), lifetime),))
                    made.append(party)
                elif party.role == "master":
                    self._write_public(party, there)
            if read_private(self.operator_key) is None:
                pair = ssh.make(f"fleet {fleet.name}")
                # The public half first: if only that exists, the next run creates both again.
                write_file(self._ssh / "operator.pub", f"{pair.public}\n".encode(), 0o644)
                write_file(self.operator_key, pair.private)
                made.append(OPERATOR_KEY)
            for host in hosts(fleet):
                if not host.is_local and read_private(self._host_path(host.name)) is None:
                    write_file(self._host_path(host.name), ssh.make(host.name).private)
                    made.append(host.name)
            for webhook in webhooks(fleet):
                path = self._webhook_path(webhook)
                if read_private(path) is None:
                    write_file(path, base64.b64encode(secrets.token_bytes(WEBHOOK_BYTES)) + b"\n")
                    made.append(webhook)
            self._write_known_hosts(fleet)
        return made

    # --- CURVE: what files_of() asks for -------------------------------------------------------

    def publics(self, party: Party) -> tuple[str, ...]:
        """A party's valid public keys, the current one first; () if it has none or was revoked."""
        return () if self.revoked(party) else self.public_keys(party)

    def secret_file(self, party: Party) -> bytes:
        """A party's secret key file; KeyStoreError if it has none or was revoked."""
        if self.revoked(party):
            raise KeyStoreError(
                f"{party} was revoked; fleet keys reinstate gives it a new key, "
                "fleet keys show says when and why"
            )
        return curve.render(self._known(party), secret=True)

    def public_file(self, party: Party) -> bytes:
        """A party's public key file. For a revoked party it contains a new key that has not been
        issued, so that the holder of the former key cannot impersonate it."""
        return curve.render(self._known(party), secret=False)

    def webhook_file(self, iad: str, webhook: str) -> bytes:
        """The file with a webhook's secrets; KeyStoreError if it has none."""
        found = WebhookOf(iad, webhook)
        content = read_private(self._webhook_path(found))
        if content is None:
            raise KeyStoreError(f"{found} has no secret yet; fleet keys init makes what is missing")
        return content

    def latency_model(self, path: str) -> bytes:
        """The latency model in this file of the fleet's folder, which is no secret; KeyStoreError
        if it is none."""
        try:
            data = files.read(self.folder.root / path, MAX_MODEL)
            decode(data)
        except OSError as error:
            raise KeyStoreError(f"placement.model: {path}: {error.strerror}") from None
        except ModelError as error:
            raise KeyStoreError(f"placement.model: {path}: {error}") from None
        return data

    def keys(self, party: Party) -> tuple[CurveKey, ...]:
        """A party's keys, revoked or not, the current one first; () if it has none."""
        path = self._path(party)
        content = read_private(path)
        if content is None:
            return ()
        try:
            return curve.parse(content.decode("ascii"), str(path))
        except (ConfigError, UnicodeDecodeError) as error:
            line = error if isinstance(error, ConfigError) else f"{path}: no key file"
            raise KeyStoreError(f"{line}; restore it from a backup") from None

    def public_keys(self, party: Party) -> tuple[str, ...]:
        """A party's public keys, revoked or not."""
        return tuple(key.pair.public for key in self.keys(party))

    def replace_keys(
        self, party: Party, change: Callable[[tuple[CurveKey, ...]], tuple[CurveKey, ...]]
    ) -> None:
        """Replace a party's keys by the result of `change`."""
        with self.writing():
            before = self._known(party)
            if (after := change(before)) != before:
                self._write(party, after)

    def key_files(self, role: Literal["client", "operator"], iad: str) -> KeyFiles:
        """Paths for one of the fleet's own connections to an IAD's master: its secret file, and the
        file of that master's public keys. A rotation changes both."""
        own, master = CLIENT if role == "client" else OPERATOR, Party("master", iad)
        for party in (own, master):
            self._known(party)
        return KeyFiles(str(self._path(own)), str(self._public_path(master)))

    # --- SSH -----------------------------------------------------------------------------------

    @property
    def operator_key(self) -> Path:
        """The private SSH key used to log in to hosts."""
        return self._ssh / "operator"

    @property
    def operator_public(self) -> str:
        """Its public half, in authorized_keys format."""
        content = read_private(self.operator_key)
        if content is None:
            raise KeyStoreError("there is no SSH key of the operator; fleet keys init makes it")
        try:
            public = ssh.load(content, str(self.operator_key)).public
        except ssh.LockedKeyError:  # the SSH agent holds it
            try:
                public = ssh.normal((self._ssh / "operator.pub").read_text(errors="replace"))
            except OSError as error:
                raise KeyStoreError(f"{self._ssh / 'operator.pub'}: {error.strerror}") from None
        return f"{public} fleet"

    def host_key(self, host: str) -> HostKey:
        """The host key that this host gets when its card is flashed."""
        content = read_private(self._host_path(host))
        if content is None:
            raise KeyStoreError(f"there is no host key of {host}; fleet keys init makes it")
        return ssh.load(content, str(self._host_path(host)))

    def pin(self, host: str) -> str:
        """The public host key that this host must show: an adopted one, or our own; empty if the
        host was revoked or has none yet."""
        if (adopted := _pinned(self._pin_path(host), host)) is not None:
            return adopted
        if read_private(self._host_path(host)) is None or self.revoked(party_of(host)):
            return ""
        return self.host_key(host).public

    def adopted(self, host: str) -> bool:
        """Whether the pinned key was adopted from the host."""
        return self._pin_path(host).exists()

    def adopt(self, fleet: Inventory, host: HostOf, public: str) -> None:
        """Pin the key that the host already has."""
        with self.writing():
            write_file(self._pin_path(host.name), f"{ssh.normal(public)}\n".encode())
            self._write_known_hosts(fleet)

    def adopt_jump(self, fleet: Inventory, name: str, public: str) -> None:
        """Pin the host key of a jump host."""
        with self.writing():
            write_file(self._jump_path(name), f"{ssh.normal(public)}\n".encode())
            self._write_known_hosts(fleet)

    def use_own_host_key(self, fleet: Inventory, host: str) -> None:
        """Pin our own key again: the host was flashed and has it now."""
        with self.writing():
            remove_file(self._pin_path(host))
            self._write_known_hosts(fleet)

    def write_known_hosts(self, fleet: Inventory) -> None:
        """Write known_hosts, for instance after addresses changed."""
        with self.writing():
            self._write_known_hosts(fleet)

    def require_pins(self, fleet: Inventory) -> None:
        """KeyStoreError if pins are damaged: known_hosts is without them."""
        if damaged := self._pins(fleet)[1]:
            more = f" (and {len(damaged) - 1} more)" if damaged[1:] else ""
            raise KeyStoreError(f"{damaged[0]}{more}")

    def _write_known_hosts(self, fleet: Inventory) -> None:
        """A host whose pin is damaged is left out: nobody logs in there."""
        write_file(self.folder.known_hosts, ssh.known_hosts(self._pins(fleet)[0]), 0o644)

    def _pins(self, fleet: Inventory) -> tuple[list[tuple[str, int, str]], list[str]]:
        """The lines of known_hosts, and those about damaged pins."""
        self.revocations()  # if these are damaged, nobody knows who is out
        pins, damaged = [], []
        for host in hosts(fleet):
            try:
                if not host.is_local and (public := self.pin(host.name)):
                    pins.append((host.address, port_of(fleet, host), public))
            except KeyStoreError as error:
                damaged.append(str(error))
        for jump in fleet.jump:
            try:
                if (pinned := _pinned(self._jump_path(jump.name), jump.name)) is not None:
                    pins.append((jump.address, jump.port or fleet.ssh.port, pinned))
            except KeyStoreError as error:
                damaged.append(str(error))
        return pins, damaged

    # --- revocation ----------------------------------------------------------------------------

    def revocations(self) -> tuple[Revocation, ...]:
        """All revocations, the oldest first."""
        content = read_private(self._root / "revoked.json")
        try:
            return _REVOCATIONS.decode(b"[]" if content is None else content)
        except msgspec.DecodeError as error:
            path = self._root / "revoked.json"
            raise KeyStoreError(f"{path}: {error}; restore it from a backup") from None

    def revoked(self, party: Party) -> bool:
        """Whether the party's keys are revoked."""
        return any(each.party == party for each in self.revocations())

    def revoke(self, fleet: Inventory, party: Party, reason: str) -> Revocation:
        """Revoke a party's keys, and the host key pin of its host. It gets a new key, which is not
        issued before `reinstate`. Of a revoked party only what an interruption left is done."""
        with self.writing():
            before = self.revocations()
            found = next((each for each in before if each.party == party), None)
            if found is None:
                found = Revocation(
                    party.role,
                    party.name,
                    tuple(key.pair.public for key in self._known(party)),
                    f"{self._clock():%Y-%m-%dT%H:%M:%SZ}",
                    reason,
                )
                # Record the revocation before replacing the keys: if interrupted, the party is
                # revoked all the same.
                self._write_revocations((*before, found))
            self._replace_former(fleet, found)
        return found

    def reinstate(self, fleet: Inventory, party: Party) -> bool:
        """Issue a revoked party its new keys; returns whether it was revoked."""
        with self.writing():
            before = self.revocations()
            after = tuple(each for each in before if each.party != party)
            if after == before:
                return False
            (gone,) = (each for each in before if each.party == party)
            self._replace_former(fleet, gone)
            self._write_revocations(after)
            self._write_known_hosts(fleet)
        return True

    def _replace_former(self, fleet: Inventory, gone: Revocation) -> None:
        """Replace the keys of a revoked party, and those of its host, unless that was done: they
        must never become valid again. The CURVE key comes last and says so."""
        if not set(gone.keys) & set(self.public_keys(gone.party)):
            return
        if host := host_name(gone.party):
            remove_file(self._pin_path(host))
            write_file(self._host_path(host), ssh.make(host).private)
        # A damaged pin of another host must not keep this party in.
        self._write_known_hosts(fleet)
        self._write(gone.party, (curve.make(self._clock()),))

    def _write_revocations(self, found: tuple[Revocation, ...]) -> None:
        write_file(self._root / "revoked.json", msgspec.json.format(msgspec.json.encode(found)))

    # --- paths ---------------------------------------------------------------------------------

    def _known(self, party: Party) -> tuple[CurveKey, ...]:
        found = self.keys(party)
        if not found:
            raise KeyStoreError(f"{party} has no key yet; fleet keys init makes what is missing")
        return found

    def _write(self, party: Party, keys: tuple[CurveKey, ...]) -> None:
        if party.role == "master":
            # First: peers learn a key before it is used, see docs/understand/trust.md.
            self._write_public(party, keys)
        write_file(self._path(party), curve.render(keys, secret=True))

    def _write_public(self, party: Party, keys: tuple[CurveKey, ...]) -> None:
        path, content = self._public_path(party), curve.render(keys, secret=False)
        with suppress(OSError):  # who may read it does not matter
            if files.read(path, len(content)) == content:
                return
        write_file(path, content)

    def _path(self, party: Party) -> Path:
        return self._curve / f"{_file_name(party)}.secret"

    def _public_path(self, party: Party) -> Path:
        return self._curve / f"{_file_name(party)}.public"

    def _webhook_path(self, webhook: WebhookOf) -> Path:
        return self._webhook / f"{_flat(f'{webhook.iad}/{webhook.name}')}.secret"

    def _host_path(self, host: str) -> Path:
        return self._ssh / f"host-{_flat(host)}.key"

    def _jump_path(self, name: str) -> Path:
        return self._ssh / f"jump-{_flat(name)}.pin"

    def _pin_path(self, host: str) -> Path:
        return self._ssh / f"host-{_flat(host)}.pin"


def _pinned(path: Path, name: str) -> str | None:
    """The public host key in a pin file; None if there is none."""
    content = read_private(path)
    try:
        return None if content is None else ssh.normal(content.decode("ascii"))
    except (KeyStoreError, UnicodeDecodeError):
        line = f"{path} is no public SSH key; fleet keys adopt {name} pins the key anew"
        raise KeyStoreError(line) from None


def host_name(party: Party) -> str:
    """The host on which a party's agent runs; empty for a person."""
    if party.role == "master":
        return f"{party.name}/master"
    return party.name if party.role == "node" else ""


def party_of(host: str) -> Party:
    """The party of the agent on this host."""
    iad, _, node = host.partition("/")
    return Party("master", iad) if node == "master" else Party("node", host)


def _file_name(party: Party) -> str:
    return f"{party.role}-{_flat(party.name)}"


def _flat(name: str) -> str:
    """A name as part of a file name. No name contains a +, and only the IAD is followed by a
    slash."""
    if "+" in name or "\0" in name or name.count("/") > 1:
        raise KeyStoreError(f"{name!r} is no name of a host or person")
    return name.replace("/", "+")
