"""A tree with named vertices: validated once, then queried for next hops, paths and distances.

Memory and construction time are O(n) for n vertices, nothing is O(n²): the vertices are numbered in
preorder, so that the descendants of a vertex are an interval of numbers, and a step down is a
bisection among its children.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from functools import cached_property

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Names listed in the error for a long cycle, or for a disconnected part.
_MAX_TOLD = 6

_Neighbours = dict[str, list[str]]


class TreeError(ValueError):
    """The links do not form a tree: one line says why."""


class Tree:
    """An immutable tree; vertices and neighbours keep the order in which they were given."""

    def __init__(self, links: Iterable[tuple[str, str]], vertices: Iterable[str] = ()) -> None:
        """Vertices may be left out if the links name all of them. TreeError. O(n)."""
        self._neighbours = _checked(tuple(links), tuple(vertices))
        self.vertices = tuple(self._neighbours)
        self._number(self.vertices[0])

    def _number(self, root: str) -> None:
        """Numbers in preorder, and by number: name, parent, the last number below, children."""
        count = len(self.vertices)
        self._names = [""] * count
        self._parents = [0] * count
        self._depths = [0] * count
        self._children: list[list[int]] = [[] for _ in range(count)]
        self._numbers: dict[str, int] = {}
        waiting = [(root, -1)]
        while waiting:
            name, parent = waiting.pop()
            number = len(self._numbers)
            self._numbers[name] = number
            self._names[number] = name
            self._parents[number] = parent
            if parent >= 0:
                self._children[parent].append(number)
                self._depths[number] = self._depths[parent] + 1
            waiting += (
                (each, number)
                for each in self._neighbours[name]
                if number == 0 or each != self._names[parent]
            )
        self._last = list(range(count))
        for number in range(count - 1, 0, -1):
            parent = self._parents[number]
            self._last[parent] = max(self._last[parent], self._last[number])

    def __len__(self) -> int:
        return len(self.vertices)

    def __contains__(self, vertex: object) -> bool:
        return vertex in self._neighbours

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Each link once: (parent, child), seen from the first vertex. O(n)."""
        parents, names = self._parents, self._names
        return tuple((names[parents[i]], names[i]) for i in range(1, len(names)))

    def neighbours(self, vertex: str) -> tuple[str, ...]:
        """KeyError for an unknown one. O(their number)."""
        return tuple(self._neighbours[vertex])

    def degree(self, vertex: str) -> int:
        return len(self._neighbours[vertex])

    def next_vertex(self, at: str, to: str) -> str:
        """The neighbour of `at` on the way to `to`, another vertex. ValueError if it is the same,
        KeyError for an unknown one. O(log degree)."""
        here, there = self._numbers[at], self._numbers[to]
        if here == there:
            raise ValueError(f"{at!r} has no next vertex on the way to itself")
        if not here < there <= self._last[here]:
            return self._names[self._parents[here]]
        below = self._children[here]
        return self._names[below[bisect_right(below, there) - 1]]

    def path(self, start: str, end: str) -> tuple[str, ...]:
        """The vertices from `start` to `end`, both among them. KeyError. O(its length)."""
        parents, depths = self._parents, self._depths
        here, there = self._numbers[start], self._numbers[end]
        up, down = [here], [there]
        while here != there:
            if depths[here] >= depths[there]:
                here = parents[here]
                up.append(here)
            else:
                there = parents[there]
                down.append(there)
        return tuple(self._names[number] for number in up + down[-2::-1])

    def distance(self, start: str, end: str) -> int:
        """Links between them. KeyError. O(distance)."""
        return len(self.path(start, end)) - 1

    @cached_property
    def diameter(self) -> int:
        """Links between the two vertices that are farthest apart. O(n) on the first call."""
        # By height: the sum of the two deepest branches below a vertex is largest at some vertex of
        # a longest path.
        heights = [0] * len(self.vertices)
        longest = 0
        for number in range(len(heights) - 1, 0, -1):
            parent = self._parents[number]
            longest = max(longest, heights[parent] + heights[number] + 1)
            heights[parent] = max(heights[parent], heights[number] + 1)
        return longest


def _checked(links: tuple[tuple[str, str], ...], vertices: tuple[str, ...]) -> _Neighbours:
    """The neighbours of each vertex; TreeError if this is not a tree."""
    neighbours: _Neighbours = {}
    for vertex in vertices:
        _check_name(vertex)
        if vertex in neighbours:
            raise TreeError(f"vertex {vertex!r} is named twice")
        neighbours[vertex] = []
    parts = _Parts(vertices)
    for a, b in links:
        for end in (a, b):
            _check_name(end)
            if vertices and end not in neighbours:
                raise TreeError(
                    f"the link {a} – {b} has an end {end!r} that is none of the vertices"
                )
            neighbours.setdefault(end, [])
        if a == b:
            raise TreeError(f"{a!r} is linked to itself")
        if not parts.join(a, b):
            if b in neighbours[a]:
                raise TreeError(f"the link {a} – {b} is there twice")
            cycle = " – ".join(_shortened([*_way(neighbours, a, b), a]))
            raise TreeError(f"the links {cycle} form a cycle: one of them has to go")
        neighbours[a].append(b)
        neighbours[b].append(a)
    if not neighbours:
        raise TreeError("there is no vertex: name one, or a link")
    _check_connected(neighbours)
    return neighbours


def _check_name(vertex: object) -> None:
    if not isinstance(vertex, str) or not _NAME.fullmatch(vertex):
        raise TreeError(
            f"a vertex has a name of 1 to 64 letters, digits, '_', '.' or '-', not {vertex!r}"
        )


def _check_connected(neighbours: _Neighbours) -> None:
    first = next(iter(neighbours))
    reached = _reached_from(neighbours, first)
    apart = [vertex for vertex in neighbours if vertex not in reached]
    if not apart:
        return
    part = _reached_from(neighbours, apart[0])
    names = ", ".join(_shortened([vertex for vertex in apart if vertex in part]))
    raise TreeError(f"no way leads from {first} to {names}: a link is missing")


def _reached_from(neighbours: _Neighbours, start: str) -> dict[str, str]:
    """The reachable vertices, each with its predecessor."""
    before = {start: start}
    waiting = deque([start])
    while waiting:
        at = waiting.popleft()
        for each in neighbours[at]:
            if each not in before:
                before[each] = at
                waiting.append(each)
    return before


def _way(neighbours: _Neighbours, start: str, end: str) -> list[str]:
    before = _reached_from(neighbours, end)
    way = [start]
    while way[-1] != end:
        way.append(before[way[-1]])
    return way


def _shortened(names: list[str]) -> list[str]:
    if len(names) <= _MAX_TOLD + 1:
        return names
    return [*names[: _MAX_TOLD - 1], f"({len(names) - _MAX_TOLD} more)", names[-1]]


class _Parts:
    """Connected components so far: disjoint sets."""

    def __init__(self, vertices: Iterable[str]) -> None:
        self._above = {vertex: vertex for vertex in vertices}

    def _top(self, vertex: str) -> str:
        above = self._above
        above.setdefault(vertex, vertex)
        while above[vertex] != vertex:
            above[vertex] = above[above[vertex]]
            vertex = above[vertex]
        return vertex

    def join(self, a: str, b: str) -> bool:
        """Merge two components; False if they are one already."""
        top_a, top_b = self._top(a), self._top(b)
        self._above[top_a] = top_b
        return top_a != top_b
