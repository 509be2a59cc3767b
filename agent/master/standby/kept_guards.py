"""What is on disk of units that have a standby at another master."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from agent.master.storage.state import State
from agent.placement.standby import take_over as t

# Kind of the documents in the state.
GUARD: Final = "standby"


class Kept(Struct, frozen=True, array_like=True):
    """What is on disk of a unit with a standby, which stands by in the term `at` of its own. The
    `incarnation` names the topic's inbox."""

    role: t.Role
    at: int
    incarnation: str


def kept_guards(state: State) -> dict[str, Kept | None]:
    """The stored state of topics with a standby, by name; None of what cannot be read."""
    read = state.read(GUARD, msgspec.msgpack.Decoder(Kept).decode)
    return {name: read.get(name) for name in state.all(GUARD)}
