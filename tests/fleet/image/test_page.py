"""The page for operators has every variable, as the layers have it."""

from __future__ import annotations

from pathlib import Path

from fleet.image import layers

PAGE = Path(__file__).parents[3] / "docs/run/images.md"


def rows():
    """The table of variables, as it has to be in the page."""
    for layer in layers.read_library().layers.values():
        for name, each in layer.variable.items():
            default = str(each.default).lower() if isinstance(each.default, bool) else each.default
            shown = f"`{default}`" if default != "" else "none"
            yield f"| `{name}` | {layer.name} | {shown} | {each.description} |"


def test_the_page_has_every_variable():
    lines = PAGE.read_text().splitlines()
    start = lines.index("| variable | layer | default | is |") + 2
    wanted = list(rows())
    assert lines[start : start + len(wanted)] == wanted
    assert not lines[start + len(wanted)].startswith("|")
