"""Areas: paths such as ``b1/f4/r413``; a parent covers its children by whole segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# (?!\n): to Python alone, $ also stands before a newline at the end.
AREA_PATTERN = r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,15}$(?!\n)"


def covers(parent: str, child: str) -> bool:
    """Whether `child` is `parent` or lies below it: ``b1/f4`` covers ``b1/f4/r413``, but not
    ``b1/f41``."""
    return child == parent or (child.startswith(parent) and child[len(parent)] == "/")


def overlaps(a: str, b: str) -> bool:
    """Whether one of the two areas covers the other."""
    return covers(a, b) or covers(b, a)


def with_parents(area: str) -> Iterator[str]:
    """The area and all above it, finest first: ``b1/f4/r413``, ``b1/f4``, ``b1``."""
    while area:
        yield area
        area = area.rpartition("/")[0]


def matching(asked: Iterable[str], declared: Iterable[str]) -> list[str]:
    """The declared areas that some asked area covers, each once, in the order declared.

    O(len(asked) · len(declared)) string comparisons.
    """
    asked = tuple(asked)
    return list(dict.fromkeys(area for area in declared if any(covers(a, area) for a in asked)))
