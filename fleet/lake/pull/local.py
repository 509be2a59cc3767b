"""Treats a local run's folder as a fleet (`fleet.testbed.testbed` lays it out)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from agent.wire.config import ConfigError, load
from agent.wire.drs_config import DrsConfig
from agent.wire.edge_config import EdgeConfig
from agent.wire.master_config import MasterConfig
from fleet.common.exits import CommandError
from fleet.inventory.model import MODELS, Iad, Inventory, Master, Model, Node
from fleet.inventory.parties import HostOf
from fleet.lake.pull.landing_files import staged
from fleet.lake.schema.folder import LOCAL_RUN, Lake

CONFIG: Final = "config.toml"
RESULTS: Final = "results.json"
HERE: Final = "127.0.0.1"


class NoRunError(CommandError, FileNotFoundError):
    """There is no local run; the text is one line that says how to make one."""


class Run(NamedTuple):
    """A finished local run: its fleet, and each host's configuration by name."""

    fleet: Inventory
    configs: dict[str, Path]


def run_in(folder: Path) -> Run:
    """The run in `folder`. NoRunError; ConfigError for an unreadable configuration."""
    configs: dict[str, Path] = {}
    rooms: dict[str, str] = {}
    iads = tuple(_iads(folder, configs, rooms))
    if not iads:
        if folder == LOCAL_RUN:
            raise NoRunError(
                f"no run in {folder.absolute()}: `make demo` makes one; for a run of another "
                "folder, --local FOLDER"
            )
        raise NoRunError(f"no run in {folder}: it has no folder of an IAD")
    return Run(Inventory(name=folder.name, iad=iads, rooms=rooms), configs)


def keep_results(folder: Path, lake: Lake) -> None:
    """Copy the measurements of the run's clients to the lake, if there are any. OSError."""
    if (results := folder / RESULTS).is_file():
        with staged(lake, lake.client) as part:
            shutil.copyfile(results, part)


def _iads(folder: Path, configs: dict[str, Path], rooms: dict[str, str]) -> Iterator[Iad]:
    for path in sorted(folder.glob(f"*/{CONFIG}")):
        try:
            identity = load(path, MasterConfig).iad
        except ConfigError as error:
            try:
                load(path, DrsConfig)  # the registration service's
            except ConfigError:
                raise error from None
            continue
        rooms.update(identity.rooms)
        iad = Iad(name=identity.name, master=Master(address=HERE, local=True))
        configs[HostOf(iad, None).name] = path
        nodes = []
        for each in sorted(path.parent.glob(f"*/{CONFIG}")):
            nodes.append(_node(load(each, EdgeConfig)))
            configs[HostOf(iad, nodes[-1]).name] = each
        yield Iad(name=iad.name, master=iad.master, node=tuple(nodes))


def _node(config: EdgeConfig) -> Node:
    """Its model is what it emulates."""
    model: Model = next((each for each in MODELS if config.pods.emulate.startswith(each)), "host")
    return Node(name=config.node.name, address=HERE, areas=config.node.areas, model=model)
