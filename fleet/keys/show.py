"""`fleet keys show`: age and state of every key, and keys that expire soon."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import Party, hosts, parties
from fleet.keys import curve, rotation, ssh
from fleet.keys.backup import interrupted
from fleet.keys.curve import CurveKey
from fleet.keys.rotation import Stage
from fleet.keys.stages import read_state
from fleet.keys.store import Revocation, Store
from fleet.terminal import output

SOON: Final = timedelta(days=30)
_STATES: Final = {Stage.ANNOUNCED: "announced", Stage.SWITCHED: "switched"}


class ShownKey(Struct, frozen=True):
    """A party's current key. `state`: missing, current, announced, switched (docs/run/keys.md) or
    revoked; times are null if the key file does not give them, and of a revoked key."""

    role: str
    name: str
    key: str
    made: str | None
    expires: str | None
    state: str
    warning: str = ""


class ShownHostKey(Struct, frozen=True):
    """The pinned SSH host key; empty if there is none. `origin`: ours or adopted."""

    host: str
    fingerprint: str
    origin: str


class Shown(Struct, frozen=True):
    """The document of `fleet keys show --json`."""

    keys: tuple[ShownKey, ...]
    host_keys: tuple[ShownHostKey, ...]
    revoked: tuple[Revocation, ...]
    rotating: bool


def run(folder: Folder, *, as_json: bool) -> int:
    """Print the keys; the exit status."""
    fleet = load(folder)
    shown = describe(Store(folder), fleet, datetime.now(UTC))
    if as_json:
        output.write_json(shown)
        return exits.DONE
    from fleet.terminal.screen import console, line, plain_table, show_table

    screen = console()
    table = plain_table("party", "key", "made", "expires", "state", left=5)
    for each in shown.keys:
        made, expires = ((t or "–")[:10] for t in (each.made, each.expires))
        table.add_row(f"{each.role} {each.name}", each.key[:8] or "–", made, expires, each.state)
    show_table(screen, table)
    line(screen, "")
    table = plain_table("host", "SSH host key", "origin", left=3)
    for host in shown.host_keys:
        table.add_row(host.host, host.fingerprint or "none is pinned", host.origin)
    show_table(screen, table)
    for gone in shown.revoked:
        reason = f": {gone.reason}" if gone.reason else ""
        line(screen, f"{gone.party} was revoked at {gone.time}{reason}")
    for each in shown.keys:
        if each.warning:
            output.say(f"{each.role} {each.name}: {each.warning}")
    for left in interrupted(folder):
        output.say(
            f"{left} has secret keys, left by a restore that was interrupted: fleet keys restore "
            "puts it in order"
        )
    if shown.rotating:
        output.say("a rotation is under way; fleet keys rotate continues it")
    return exits.DONE


def describe(store: Store, fleet: Inventory, now: datetime) -> Shown:
    """Describe every key of the store."""
    state = read_state(store.folder.keys / "rotation.json")
    gone = {each.party: each for each in store.revocations()}
    return Shown(
        tuple(
            _revoked(gone[party]) if party in gone else _key(party, store.keys(party), state, now)
            for party in parties(fleet)
        ),
        tuple(_host_keys(store, fleet)),
        store.revocations(),
        state is not None,
    )


def _key(
    party: Party,
    keys: tuple[CurveKey, ...],
    state: rotation.State | None,
    now: datetime,
) -> ShownKey:
    if not keys:
        return ShownKey(*party, "", None, None, "missing", "no key yet; fleet keys init makes it")
    current = keys[0]
    of_party = [each.stage for each in state.members if each.party == party] if state else []
    word = _STATES.get(of_party[0], "current") if of_party else "current"
    return ShownKey(
        *party,
        current.pair.public,
        curve.text_of(current.made) if current.made else None,
        curve.text_of(current.expires) if current.expires else None,
        word,
        _warning(current.expires, now),
    )


def _revoked(gone: Revocation) -> ShownKey:
    """The key that was revoked, not the one that the store has made in its place, and issues to
    nobody before `reinstate`. When it was made went with its file."""
    return ShownKey(*gone.party, next(iter(gone.keys), ""), None, None, "revoked")


def _warning(expires: datetime | None, now: datetime) -> str:
    if expires is None or expires - now > SOON:
        return ""
    days = (expires - now).days
    when = f"expires in {days} days" if expires > now else f"expired on {expires:%Y-%m-%d}"
    return f"its key {when}, and works on; fleet keys rotate gives it a new one"


def _host_keys(store: Store, fleet: Inventory) -> Iterable[ShownHostKey]:
    for host in hosts(fleet):
        if not host.is_local:
            pin = store.pin(host.name)
            origin = "adopted" if store.adopted(host.name) else "ours"
            yield ShownHostKey(host.name, ssh.fingerprint(pin) if pin else "", origin)
