"""A fleet of two IADs, and its key store in a folder."""

import msgspec

from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.keys.store import Store

SOCKETS = ("public", "nodes", "operator")


def inventory(*, nodes=2, local=False, **master):
    """Two IADs of `nodes` nodes each, and two persons."""
    text = {
        "name": "field",
        "iad": [
            {
                "name": iad,
                "master": {
                    "address": f"10.0.{number}.1",
                    "local": local,
                    **{f"{kind}_port": 5_700 + 10 * number + n for n, kind in enumerate(SOCKETS)},
                    **master,
                },
                "node": [
                    {
                        "name": f"n{node}",
                        "address": f"10.0.{number}.{node + 1}",
                        "areas": [f"b{number}/r{node}"],
                        "sensor": [{"driver": "synthetic"}],
                    }
                    for node in range(1, nodes + 1)
                ],
            }
            for number, iad in enumerate(("iad4", "iad5"), 4)
        ],
        "person": [
            {"name": "ada", "roles": ["client", "operator"]},
            {"name": "bob", "roles": ["client"], "services": ["default"]},
        ],
    }
    return msgspec.convert(text, Inventory)


def store(folder, fleet, **options):
    """A store with all keys."""
    made = Store(Folder(folder), **options)
    made.ensure(fleet)
    return made
