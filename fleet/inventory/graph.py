"""Diagram of a fleet (IADs, masters, nodes, areas) in Mermaid and Graphviz."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fleet.inventory.parties import HostOf


class _Iad(NamedTuple):
    name: str
    master: str
    nodes: tuple[tuple[str, tuple[str, ...]], ...]  # (name, areas)


def mermaid(chosen: Sequence[HostOf]) -> str:
    """A flowchart. Names contain nothing that would end a quoted label."""
    lines = ["flowchart LR"]
    areas = _areas(chosen)
    iads = _iads(chosen)
    if len(iads) > 1:
        lines.append('    pool{{"pool default"}}')
    for i, iad in enumerate(iads):
        lines.append(f'    subgraph i{i}["{iad.name}"]')
        lines.append(f'        m{i}["master<br/>{iad.master}"]')
        lines += [f'        i{i}n{n}["{name}"]' for n, (name, _) in enumerate(iad.nodes)]
        lines += [f"        m{i} --- i{i}n{n}" for n in range(len(iad.nodes))]
        lines.append("    end")
        if len(iads) > 1:
            lines.append(f"    pool --- m{i}")
    lines += [f'    a{number}(["{area}"])' for area, number in areas.items()]
    lines += [f"    i{i}n{n} --> a{areas[area]}" for i, n, area in _covers(iads)]
    return "\n".join(lines) + "\n"


def dot(chosen: Sequence[HostOf]) -> str:
    """A graph for Graphviz."""
    lines = ["digraph fleet {", "    rankdir=LR;", "    node [shape=box];"]
    areas = _areas(chosen)
    iads = _iads(chosen)
    if len(iads) > 1:
        lines.append('    pool [label="pool default", shape=hexagon];')
    for i, iad in enumerate(iads):
        lines.append(f"    subgraph cluster_{i} {{")
        lines.append(f'        label="{iad.name}";')
        lines.append(f'        m{i} [label="master\\n{iad.master}"];')
        lines += [f'        i{i}n{n} [label="{name}"];' for n, (name, _) in enumerate(iad.nodes)]
        lines += [f"        m{i} -> i{i}n{n} [dir=none];" for n in range(len(iad.nodes))]
        lines.append("    }")
        if len(iads) > 1:
            lines.append(f"    pool -> m{i} [dir=none];")
    lines += [f'    a{number} [label="{area}", shape=ellipse];' for area, number in areas.items()]
    lines += [f"    i{i}n{n} -> a{areas[area]};" for i, n, area in _covers(iads)]
    return "\n".join([*lines, "}"]) + "\n"


def _iads(chosen: Sequence[HostOf]) -> list[_Iad]:
    """Each IAD with its selected nodes; its master is always included."""
    nodes: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    masters = {}
    for host in chosen:
        masters[host.iad.name] = host.iad.master.address
        here = nodes.setdefault(host.iad.name, [])
        if host.node is not None:
            here.append((host.node.name, host.node.areas))
    return [_Iad(name, masters[name], tuple(here)) for name, here in nodes.items()]


def _areas(chosen: Iterable[HostOf]) -> dict[str, int]:
    """Every area of a node, with its number."""
    found = sorted({area for host in chosen if host.node for area in host.node.areas})
    return {area: number for number, area in enumerate(found)}


def _covers(iads: Sequence[_Iad]) -> Iterator[tuple[int, int, str]]:
    for i, iad in enumerate(iads):
        for n, (_, areas) in enumerate(iad.nodes):
            for area in dict.fromkeys(areas):
                yield i, n, area
