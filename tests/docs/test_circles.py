"""The contract that no files import one another in a circle."""

from __future__ import annotations

import re
from pathlib import Path

import grimp
import pytest

from tools.import_circles import find_circle


def test_a_circle_is_named_file_by_file() -> None:
    assert find_circle({"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": set()}) in (
        ["b", "c", "b"],
        ["c", "b", "c"],
    )
    assert find_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_imports_in_functions_and_for_types_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "circled"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("def f():\n    from circled.two import g\n    return g\n")
    two = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from circled.one import f\n"
    (package / "two.py").write_text(two)
    monkeypatch.syspath_prepend(tmp_path)
    graph = grimp.build_graph("circled", cache_dir=None)
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert set(find_circle(imported)) == {"circled.one", "circled.two"}


ROOT = Path(__file__).parents[2]
CIMPORT = re.compile(r"^(?:from\s+(_core\.\S+)\s+c?import|c?import\s+(_core\.\S+))", re.MULTILINE)
# The rooms of `_core` that use others, and which.
USES = {
    "_bench": {"deadlines", "queue"},
    "simulator": {"deadlines", "queue"},
}


def compiled() -> dict[str, set[str]]:
    """What each module of `_core` imports of it, in its `.pyx` or `.pxd`: import-linter sees
    neither."""
    imported: dict[str, set[str]] = {}
    paths = [path for ending in ("pyx", "pxd") for path in (ROOT / "_core").rglob(f"*.{ending}")]
    for path in sorted(paths):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found = {one or other for one, other in CIMPORT.findall(path.read_text())}
        imported.setdefault(name, set()).update(found - {name})
    return imported


def test_compiled_modules_import_one_another_in_no_circle() -> None:
    imported = compiled()
    assert "_core.deadlines.hazard_cdf" in imported["_core.deadlines.matrix"]
    assert find_circle(imported) == []


def test_rooms_of_core_use_those_below_them() -> None:
    found: dict[str, set[str]] = {}
    for name, imported in compiled().items():
        room = name.split(".")[1]
        found.setdefault(room, set()).update({each.split(".")[1] for each in imported} - {room})
    assert {room: below for room, below in found.items() if below} == USES
