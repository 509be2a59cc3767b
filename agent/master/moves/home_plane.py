"""Homes that move between masters: of edge nodes, and of clients' durable subscriptions.

A unit is named `node/NAME`, or `client/CLIENT/ID`; without keys all clients are one, without name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from agent.placement.world import Kind, Unit

if TYPE_CHECKING:
    from agent.master.moves.movable import Changes
    from agent.placement.handover.events import Standing

NODE: Final = "node"
CLIENT: Final = "client"


class HomeChoice(NamedTuple):
    """A home that may move without anybody's asking: the delays to the IADs' masters where it may
    be, this one included, in ms one way (None: not measured); the messages so far that it exchanged
    with each IAD's master; and the topics that it hears besides."""

    name: str
    ways_ms: Mapping[str, float | None]
    counts: Mapping[str, int]
    hears: Sequence[str] = ()


class Homes(Protocol):
    """One sort of them: as `Movable`, by the names after the first slash."""

    def choices(self) -> Iterable[HomeChoice]: ...
    def names(self) -> Iterable[str]: ...
    def lives(self, name: str, /) -> bool: ...
    def restore(self, name: str, standing: Standing, other: str, /) -> bool: ...
    def copy(self, name: str, /) -> bytes: ...
    def forget_copy(self, name: str, /) -> None: ...
    def hold(self, name: str, then: Callable[[], object], /) -> None: ...
    def pause(self, name: str, then: Callable[[bytes], object], /) -> None: ...
    def resume(self, name: str, /) -> None: ...
    def release(self, name: str, to: str, /) -> Changes: ...
    def settles(self, name: str, then: Callable[[], object], /) -> None: ...
    def late(self, name: str, /) -> tuple[int, bytes] | None: ...
    def kept(self, name: str, number: int, /) -> None: ...
    def end(self, name: str, /) -> None: ...
    def load(self, name: str, copy: bytes, then: Callable[[str], object], /) -> None: ...
    def accept(self, name: str, final: bytes, /) -> str: ...
    def adopt(self, name: str, /) -> Changes: ...
    def work(self, name: str, /) -> None: ...
    def own(self, name: str, /) -> None: ...
    def stop(self, name: str, /) -> None: ...
    def discard(self, name: str, /) -> Changes: ...
    def forwarded(self, name: str, items: bytes, then: Callable[[int], object], /) -> None: ...


class HomePlane:
    """`agent.master.moves.movable.Movable`, of the sorts by the word before the first slash."""

    kind: Kind = "home"

    def __init__(self, nodes: Homes, clients: Homes | None = None) -> None:
        self._sorts: dict[str, Homes] = {NODE: nodes}
        if clients is not None:
            self._sorts[CLIENT] = clients
        self.on_late: Callable[[Unit], object] = lambda _: None

    def choices(self) -> list[HomeChoice]:
        """The homes that may move without anybody's asking, those of nodes first."""
        return [each for homes in self._sorts.values() for each in homes.choices()]

    def has_late(self, unit: Unit) -> None:
        """Something came for a home that was released."""
        self.on_late(unit)

    def units(self) -> Iterable[Unit]:
        """As of `Movable`, and so are all below."""
        return [
            unit_of(sort, name) for sort, homes in self._sorts.items() for name in homes.names()
        ]

    def _find(self, unit: Unit) -> tuple[Homes | None, str]:
        sort, _, name = unit.name.partition("/")
        return self._sorts.get(sort), name

    def _of(self, unit: Unit) -> tuple[Homes, str]:
        homes, name = self._find(unit)
        assert homes is not None, unit
        return homes, name

    def lives(self, unit: Unit) -> bool:
        homes, name = self._find(unit)
        return homes is not None and homes.lives(name)

    def restore(self, unit: Unit, standing: Standing, other: str) -> bool:
        homes, name = self._find(unit)
        # Otherwise it is of a later version.
        return homes is not None and homes.restore(name, standing, other)

    def copy(self, unit: Unit) -> bytes:
        homes, name = self._of(unit)
        return homes.copy(name)

    def forget_copy(self, unit: Unit) -> None:
        homes, name = self._of(unit)
        homes.forget_copy(name)

    def hold(self, unit: Unit, then: Callable[[], object]) -> None:
        homes, name = self._of(unit)
        homes.hold(name, then)

    def pause(self, unit: Unit, then: Callable[[bytes], object]) -> None:
        homes, name = self._of(unit)
        homes.pause(name, then)

    def resume(self, unit: Unit) -> None:
        homes, name = self._of(unit)
        homes.resume(name)

    def release(self, unit: Unit, to: str) -> Changes:
        homes, name = self._of(unit)
        return homes.release(name, to)

    def settles(self, unit: Unit, then: Callable[[], object]) -> None:
        homes, name = self._find(unit)
        if homes is None:
            then()  # a later version released it here: where it went asks again
        else:
            homes.settles(name, then)

    def late(self, unit: Unit) -> tuple[int, bytes] | None:
        homes, name = self._find(unit)
        return None if homes is None else homes.late(name)

    def kept(self, unit: Unit, number: int) -> None:
        homes, name = self._find(unit)
        if homes is not None:
            homes.kept(name, number)

    def end(self, unit: Unit) -> None:
        homes, name = self._find(unit)
        if homes is not None:
            homes.end(name)

    def load(self, unit: Unit, copy: bytes, then: Callable[[str], object]) -> None:
        homes, name = self._find(unit)
        if homes is None:
            then(f"this master knows no home such as {unit.name}")
        else:
            homes.load(name, copy, then)

    def accept(self, unit: Unit, final: bytes) -> str:
        homes, name = self._of(unit)
        return homes.accept(name, final)

    def adopt(self, unit: Unit) -> Changes:
        homes, name = self._of(unit)
        return homes.adopt(name)

    def work(self, unit: Unit) -> None:
        homes, name = self._of(unit)
        homes.work(name)

    def own(self, unit: Unit) -> None:
        homes, name = self._of(unit)
        homes.own(name)

    def stop(self, unit: Unit) -> None:
        homes, name = self._find(unit)
        if homes is not None:
            homes.stop(name)

    def discard(self, unit: Unit) -> Changes:
        homes, name = self._of(unit)
        return homes.discard(name)

    def forwarded(self, unit: Unit, items: bytes, then: Callable[[int], object]) -> None:
        homes, name = self._find(unit)
        if homes is None:
            then(-1)
        else:
            homes.forwarded(name, items, then)


def unit_of(sort: str, name: str) -> Unit:
    """The unit of that name."""
    return Unit("home", f"{sort}/{name}")
