"""A fleet of two IADs, and its key store in a folder."""

from pathlib import Path

import msgspec

from _core.colocation.model_file import VERSION, ModelFile, encode
from fleet.inventory.effective import units_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.keys.store import Store

MODEL = encode(
    ModelFile(
        version=VERSION, discipline="shared-queue", quantile=0.9, cores=1.0, interference=0.0,
        service_scale=1.0, overhead_s=0.0005, service_variance=0.0, speed_variance=0.0,
        window_s=100.0, runs=180, serial=True,
    )
)  # fmt: skip
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
    """A store with all keys, and the latency models that the inventory names."""
    made = Store(Folder(folder), **options)
    made.ensure(fleet)
    for path in {units_of(fleet, iad).get("model") for iad in fleet.iad} - {None}:
        (Path(folder) / path).write_bytes(MODEL)
    return made
