"""Memory of the frames that streams are sending.

A frame is held once, however many streams send it, until its last reader has taken it. Readers
that come at different times and take nothing hold different ones: the caller whose streams hold
most loses its oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from agent.gateway.feed.frames import Frame

MAX_BYTES: Final = 32 << 20


class _Holder:
    def __init__(self, caller: str, frames: Sequence[Frame], end: Callable[[], object]) -> None:
        self.caller = caller
        self.frames = frames
        self.end = end


class SendBudget:
    """Bounds the frames of all streams to `most_bytes`; a frame that is alone may be larger. Taking
    and giving back are O(frames), at the bound O(frames of all streams)."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes = most_bytes
        self._holders: dict[_Holder, None] = {}  # in order of arrival
        self._held: dict[Frame, tuple[int, int]] = {}  # how often, and its size at first
        self._bytes = 0

    @contextmanager
    def holding(
        self, caller: str, frames: Sequence[Frame], end: Callable[[], object]
    ) -> Iterator[None]:
        """These frames are held within the block; `end` is called if that has to end early."""
        holder = _Holder(caller, frames, end)
        self._holders[holder] = None
        for each in frames:
            count, size = self._held.get(each, (0, each.size))
            self._held[each] = count + 1, size
            self._bytes += 0 if count else size
        try:
            while self._bytes > self._most_bytes and len(self._holders) > 1:
                found = self._heaviest()
                self._release(found)
                found.end()
            yield
        finally:
            self._release(holder)

    def _release(self, holder: _Holder) -> None:
        if holder not in self._holders:
            return
        del self._holders[holder]
        for each in holder.frames:
            count, size = self._held.pop(each)
            if count > 1:
                self._held[each] = count - 1, size
            else:
                self._bytes -= size

    def _heaviest(self) -> _Holder:
        """The oldest holder of the caller whose frames have most bytes."""
        frames: dict[str, set[Frame]] = {}
        for each in self._holders:
            frames.setdefault(each.caller, set()).update(each.frames)
        most = max(frames, key=lambda caller: sum(self._held[f][1] for f in frames[caller]))
        return next(each for each in self._holders if each.caller == most)
