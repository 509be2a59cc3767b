"""`fleet replace NODE`: moves a node's name, areas and keys to a successor."""

from __future__ import annotations

from fleet.common import exits
from fleet.inventory.effective import port_of, release_of
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.inventory.selection import one_host
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import Store
from fleet.release.bundle import ReleaseError, Target, find
from fleet.rollout.deploy import Options, deploy
from fleet.rollout.session import Session
from fleet.ssh.errors import HostError
from fleet.terminal import output


def run(folder: Folder, name: str, fingerprint: str | None, options: Options) -> int:
    """Make the machine at the node's address that node; returns the exit status."""
    fleet = load(folder)
    host = one_host(fleet, name)
    if host.node is None:
        return exits.fail(f"{name} is a master; `fleet deploy` installs it anew", exits.USAGE)
    if not output.confirm(f"Replace {name} by the machine at {host.address}?", yes=options.yes):
        return exits.fail("nothing was done", exits.NOTHING)
    store = Store(folder)
    if store.reinstate(fleet, host.party):
        output.say(f"{name}: its keys were revoked; its successor gets new ones")
    if status := _pin(folder, fleet, store, host, fingerprint):
        return status
    # The master must have the new key in its allow-list before the node can connect.
    master = HostOf(host.iad, None)
    release = release_of(fleet, host) or _in_use(folder, fleet, master)
    return deploy(folder, fleet, [master, host], options._replace(yes=True, release=release))


def _in_use(folder: Folder, fleet: Inventory, master: HostOf) -> str:
    """The release of the IAD's master, if it is stored, because a replacement is no upgrade;
    otherwise empty."""
    if master.is_local:
        return ""
    session = Session(folder, fleet, master)
    try:
        facts = session.facts()
        find(folder, facts.releases.current, Target(facts.machine, facts.python))
    except (HostError, ReleaseError):
        return ""
    finally:
        session.close()
    return facts.releases.current


def _pin(
    folder: Folder, fleet: Inventory, store: Store, host: HostOf, fingerprint: str | None
) -> int:
    """Check that the successor's host key is the pinned one; otherwise the exit status."""
    from fleet.rollout.keys import adopt

    way = adopt.way_to(folder, fleet, host)
    shown = adopt.shown_by(host.address, port_of(fleet, host), fleet.ssh.connect_s, way)
    if shown == store.pin(host.name):
        return exits.DONE
    try:
        flashed = store.host_key(host.name).public
    except KeyStoreError:
        flashed = ""
    if shown == flashed:
        store.use_own_host_key(fleet, host.name)
        output.say(f"{host.name}: pinned to the key that it was flashed with")
        return exits.DONE
    return adopt.run(folder, host.name, fingerprint, None)
