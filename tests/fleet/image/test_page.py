"""The page for operators has every variable, as the layers have it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleet.cli.image import SETTING
from fleet.image import layers, recipe
from fleet.image.layers import PlanError

PAGE = Path(__file__).parents[3] / "docs/run/images.md"

# What a page has after --set, quoted if there are blanks in it.
SETTINGS = re.compile(r"--set ('[^']+=[^']+'|[a-z_0-9]+=\w+)")


def planned(*settings):
    """The plan of an image with these texts after --set."""
    chosen = dict(SETTING.parse(each) for each in settings)
    return recipe.plan(layers.read_library(), layers.read_recipe("pi4"), chosen)


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


@pytest.mark.parametrize(("page", "lines"), [("images.md", ""), ("commands.md", "image build")])
def test_settings_that_pages_show_are_taken(page, lines):
    text = PAGE.with_name(page).read_text()
    shown = [line for line in text.splitlines() if lines in line]
    found = [setting.strip("'") for line in shown for setting in SETTINGS.findall(line)]
    assert "open_ports=9701" in found
    for setting in found:
        name, _, value = setting.partition("=")
        assert str(planned(setting).values[name]).lower() == value


@pytest.mark.parametrize("ports", ["22", "1,65535", "5700, 5701, 5702", ""])
def test_ports_are_one_or_several(ports):
    files = {file.path: file for file in planned(f"open_ports={ports}").files}
    assert f"tcp dport {{ 22, {ports} }} accept".encode() in files["/etc/nftables.conf"].content


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        # nft would load none of the rules.
        ("open_ports=65536", "'65536' is not ports from 1 to 65535 with commas between"),
        ("open_ports=0", "'0' is not ports"),
        ("open_ports=5700 5701", "such as 5700, 5701"),
        # chrony would not start.
        ("time_servers=a b", "'a b' is not one name or address"),
        ("gpu_mem=many", "'many' is not a whole number"),
        ("gpu_mem=" + "9" * 5000, "is not a whole number"),
        ("dht11=yes", "'yes' is not true or false"),
        ("journal=true", "'true' is none of persistent, volatile"),
    ],
)
def test_a_value_that_is_none_is_told(setting, says):
    with pytest.raises(PlanError) as raised:
        planned(setting)
    assert says in str(raised.value)
