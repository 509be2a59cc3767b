"""The options of commands that send a request to a master's operator socket."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from fleet.cli.connecting import connecting
from fleet.cli.options import patience

if TYPE_CHECKING:
    from agent.net.keys import KeyFiles


def asks(wait: str, room: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The command gets `ask`, the `Asker` of the module `room`, which is imported when it runs."""

    def add(command: Callable[..., int]) -> Callable[..., int]:
        @connecting("operator")
        @patience(wait, "How long it may take.")
        @click.option("--json", "as_json", is_flag=True, help="Print the wire's JSON.")
        @functools.wraps(command)
        def asking(
            operator: str,
            timeout_ms: float,
            as_json: bool,
            keys: KeyFiles | None,
            **options: Any,
        ) -> int:
            asker = import_module(room).Asker
            return command(ask=asker(operator, timeout_ms, as_json, keys), **options)

        return asking

    return add
