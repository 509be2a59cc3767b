"""Shell completion of names from the inventory; it never raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from fleet.inventory.model import Inventory

VARIABLE: Final = "_FLEET_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def script(command: click.Command, shell: str) -> str:
    """Script that a shell reads to complete `fleet`."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(command, {}, "fleet", VARIABLE).source()


def answer(command: click.Command, instruction: str) -> int:
    """Answer the shell's question `instruction`, which came in VARIABLE; the exit status."""
    from click.shell_completion import shell_complete

    return shell_complete(command, {}, "fleet", VARIABLE, instruction)


def _names(found: Callable[[Inventory], Sequence[str]]) -> Completer:
    """Completes one of the names that `found` gives."""

    def complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        fleet = _fleet(context)
        names = found(fleet) if fleet else ()
        return [CompletionItem(name) for name in names if name.startswith(begun)]

    return complete


def _fleet(context: click.Context) -> Inventory | None:
    """The inventory, with contradictions or without; None if there is none that can be read."""
    from agent.wire import config
    from fleet.inventory import folder
    from fleet.inventory.model import Inventory

    named: Any = context.params.get("folder")
    try:
        return config.load((named or folder.find()).inventory, Inventory)
    except (OSError, ValueError):
        return None


def _hosts(fleet: Inventory) -> list[str]:
    from fleet.inventory.parties import hosts

    return [host.name for host in hosts(fleet)]


def _limit(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Completes the last of several patterns."""
    before, comma, last = begun.rpartition(",")
    bare = last.removeprefix("!")
    before += comma + last[: len(last) - len(bare)]
    return [CompletionItem(before + item.value) for item in HOSTS(context, parameter, bare)]


HOSTS: Final = _names(_hosts)
NODES: Final = _names(lambda fleet: [f"{i.name}/{n.name}" for i in fleet.iad for n in i.node])
IADS: Final = _names(lambda fleet: [iad.name for iad in fleet.iad])
GROUPS: Final = _names(lambda fleet: [group.name for group in fleet.group])
LIMIT: Final[Completer] = _limit
