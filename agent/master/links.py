"""Links to other masters that come and go with the pools; one that nobody needs closes later, when
no result can be under way on it any more."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence

from agent.board import Board
from agent.master.peers import Peers

# Longer than a drain; a result later than that is lost.
KEPT_S = 600.0
LOOK_S = 60.0


class Links:
    """Connects on demand; looks once a minute which links `needed()` does not name any more. Those
    of the configuration, `fixed`, stay."""

    def __init__(
        self,
        board: Board,
        peers: Peers,
        *,
        fixed: Collection[str],
        needed: Callable[[], Collection[str]],
    ) -> None:
        self._board = board
        self._peers = peers
        self._fixed = fixed
        self._needed = needed
        self._last_needed_s: dict[str, float] = {}
        self._look_s: float | None = None
        board.keeps_time(self)

    def connect(self, iad: str, address: str, keys: Sequence[str]) -> None:
        """Have a link to that IAD's master; an address that is none costs a line on stderr."""
        try:
            self._peers.connect(iad, address, keys)
        except OSError as error:
            sys.stderr.write(f"{iad}: {error}\n")
            return
        now = self._board.clock()
        self._last_needed_s[iad] = now
        if self._look_s is None:
            self._look_s = now + LOOK_S

    @property
    def next_due(self) -> float | None:
        """When to look next."""
        return self._look_s

    def tick(self, now: float) -> None:
        """Close what nobody needed for long."""
        needed = {*self._needed(), *self._fixed}
        for iad, last_s in list(self._last_needed_s.items()):
            if iad in needed:
                self._last_needed_s[iad] = now
            elif now - last_s > KEPT_S:
                del self._last_needed_s[iad]
                self._peers.drop(iad)
        self._look_s = now + LOOK_S if self._last_needed_s else None
