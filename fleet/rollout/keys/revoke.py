"""`fleet keys revoke`: removes a party from all allow-lists at once."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from msgspec import Struct

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import Party, hosts
from fleet.keys.named import named
from fleet.keys.rotation import fleet_of
from fleet.keys.store import Revocation, Store
from fleet.rollout.keys.push import Push, give, pusher
from fleet.terminal import output


class Failure(Struct, frozen=True):
    """A host that could not be updated, and the reason."""

    host: str
    error: str


class Revoked(Struct, frozen=True):
    """The document of `fleet keys revoke --json`: the revoked parties, the hosts that were updated,
    and those that still accept them."""

    revoked: tuple[Revocation, ...]
    told: tuple[str, ...]
    failed: tuple[Failure, ...]


def run(folder: Folder, name: str, reason: str, *, yes: bool, as_json: bool) -> int:
    """Revoke; the exit status."""
    fleet = load(folder)
    chosen = named(fleet, name)
    if not output.confirm(f"Revoke the keys of {name}?", yes=yes):
        return exits.NOTHING
    done = revoke(Store(folder), fleet, chosen, reason, pusher(folder, fleet))
    for each in done.failed:
        output.say(f"{each.host} could not be told, and still lets {name} in: {each.error}")
    if as_json:
        output.write_json(done)
    elif not done.failed:
        told = f"; told {', '.join(done.told)}" if done.told else ""
        sys.stdout.write(f"{name} is out{told}\n")
    if done.failed:
        output.say(f"{name} is revoked here; run this again when these hosts are there")
    return exits.FAILED if done.failed else exits.DONE


def revoke(
    store: Store, fleet: Inventory, chosen: Sequence[Party], reason: str, push: Push
) -> Revoked:
    """Revoke the parties' keys and write new files to the hosts concerned. Of a party that is
    revoked already its revocation stays, so that the command can be repeated."""
    before = fleet_of(fleet).concerned
    for party in chosen:
        store.revoke(fleet, party, reason)
    names = frozenset().union(*(before[party] for party in chosen))
    everywhere = [host for host in hosts(fleet) if host.name in names]
    # A revoked host gets no files: it may be in another's hands.
    concerned = [host for host in everywhere if not store.revoked(host.party)]
    told, failed = [], []
    for host, error in give(store, fleet, concerned, push):
        if error is None:
            told.append(host.name)
        else:
            failed.append(Failure(host.name, str(error)))
    found = [each for each in store.revocations() if each.party in chosen]
    return Revoked(tuple(found), tuple(sorted(told)), tuple(failed))
