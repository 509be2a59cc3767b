"""Keys of a testbed: a pair for each process and client, lists of who may connect to masters, and
rotations while all of them run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import tomli_w
import zmq

from agent.net.keys import KeyFiles, Pair, new, read_publics, read_secrets
from agent.wire.config import Trust
from fleet.simulation.layout import FleetLayout, IadLayout

OPERATOR: Final = "operator"
NO_OTHERS: Final[Mapping[str, str]] = MappingProxyType({})


class Keyring:
    """The key files of all processes of `plan`, of an operator and of these clients, in a folder
    that is made; `others` are masters that run elsewhere, with the files of their public keys."""

    def __init__(
        self,
        plan: FleetLayout,
        folder: Path,
        clients: Sequence[str],
        others: Mapping[str, str] = NO_OTHERS,
    ) -> None:
        self._plan = plan
        self._clients = clients
        self._others = others
        self._folder = folder.resolve()
        self._folder.mkdir(mode=0o700)
        self.masters = tuple([iad.name for iad in plan.iads])
        self.nodes = tuple([node.name for node in plan.nodes])
        everybody = (*self.masters, *self.nodes, OPERATOR, *clients)
        for name in everybody:
            new(str(self._folder / name))
        # Those that others know, the one that is used first.
        self.pairs = {name: read_secrets(self._secret(name)) for name in everybody}
        self._allow_all()

    def trust(self, name: str) -> Trust:
        """The section of the configuration of a process."""
        allow = self._allow_file(name) if name in self.masters else ""
        return Trust(key=self._secret(name), allow=str(allow))

    def public(self, name: str) -> str:
        """The file with the public keys of a process."""
        return self._others.get(name) or str(self._folder / f"{name}.public")

    def files(self, person: str, iad: str) -> KeyFiles:
        """What a client, or the operator, needs to connect to that master."""
        return KeyFiles(self._secret(person), self.public(iad))

    def rotation(self, names: Iterable[str]) -> Iterator[None]:
        """Give these processes new keys, while they run, in three steps: others know the new ones,
        too; they use them; nobody knows the old ones. Between two of them everybody has to have
        read the files, which takes some seconds (docs/understand/trust.md)."""
        old = {name: read_secrets(self._secret(name))[0] for name in names}
        made = {name: Pair(*(half.decode() for half in zmq.curve_keypair())) for name in old}
        self._write("public", old, made)
        self._allow_all()
        yield
        self._write("public", made, old)
        self._write("secret", made, old)
        yield
        self._write("secret", made)
        self._write("public", made)
        self._allow_all()

    def _secret(self, name: str) -> str:
        return str(self._folder / f"{name}.secret")

    def _allow_file(self, iad: str) -> Path:
        return self._folder / f"{iad}.allow"

    def _allow_all(self) -> None:
        for iad in self._plan.iads:
            _replace(self._allow_file(iad.name), tomli_w.dumps(self._allowed(iad)))

    def _allowed(self, iad: IadLayout) -> dict[str, list[dict[str, object]]]:
        """Who may connect to that master, by role."""
        others = [each for each in (*self.masters, *self._others) if each != iad.name]
        names = {
            "client": self._clients,
            "operator": (OPERATOR,),
            "iad": others,
            "node": [node.name for node in iad.nodes],
        }
        return {
            role: [{"name": name, "keys": [*read_publics(self.public(name))]} for name in some]
            for role, some in names.items()
        }

    def _write(self, suffix: str, *generations: dict[str, Pair]) -> None:
        for name in generations[0]:
            keys = [getattr(generation[name], suffix) for generation in generations]
            _replace(self._folder / f"{name}.{suffix}", "".join(f"{key}\n" for key in keys))
            if suffix == "public":
                self.pairs[name] = tuple([generation[name] for generation in generations])


def _replace(path: Path, text: str) -> None:
    """Write a file that only its owner may read, all at once."""
    part = path.with_name(f"{path.name}.part")
    part.touch(mode=0o600)
    part.write_text(text, encoding="utf-8")
    part.replace(path)
