"""Every rule of recipes and layers has a fixture that breaks it: its first line is what is said."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire.config import parse
from fleet.cli.commands import run
from fleet.common import exits, toml
from fleet.image import assemble, layers, recipe
from fleet.image.layers import Layer, Library, PlanError, Recipe
from tests.fleet.keys.rig import inventory

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.toml"))
MODELS = ["pi3", "pi4", "zero2w"]


def planned(text):
    """The plan of a fixture: its tables `layer`, and what it has of `recipe` and `set`."""
    table = tomllib.loads(text)
    found = {}
    for name, each in table["layer"].items():
        whole = {"name": name, "description": "", **each}
        found[name] = layers.parse_layer(whole, f"layer.{name}")
    about = {"model": "test", "description": "", "layers": list(found), **table.get("recipe", {})}
    library = Library(found, layers.SOURCES)
    return recipe.plan(library, parse(about, Recipe, "recipe"), table.get("set", {}))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_broken_rule_is_one_clear_line(path):
    text = path.read_text()
    says = text.partition("\n")[0].removeprefix("# ")
    if path.stem == "sound":
        planned(text)
        return
    with pytest.raises(PlanError) as raised:
        planned(text)
    assert str(raised.value) == says


def test_a_sound_plan():
    plan = planned((Path(__file__).parent / "fixtures/sound.toml").read_text())
    assert plan.layers == ("a", "b")
    assert plan.packages == ("systemd", "zstd")
    found = {file.path: file for file in plan.files}
    assert found["/etc/a"].content == b"7 true"
    assert (found["/etc/b"].mode, found["/etc/b"].owner) == (0o600, "fleet")
    assert found["/etc/sysctl.d/60-sanderling.conf"].content == b"kernel.panic = 10\n"


def test_what_is_conditional_is_left_out():
    text = (Path(__file__).parent / "fixtures/sound.toml").read_text()
    plan = planned(text.replace("size = 7", "on = false"))
    assert "/etc/a" not in {file.path for file in plan.files}


@given(st.permutations(["a", "b", "c", "d"]))
def test_what_is_required_comes_first(order):
    needs = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
    found = {name: Layer(name=name, description="", requires=tuple(needs[name])) for name in order}
    of = Recipe(model="test", description="", layers=tuple(order))
    made = recipe.plan(Library(found, layers.SOURCES), of).layers
    assert sorted(made) == ["a", "b", "c", "d"]
    assert all(made.index(need) < made.index(name) for name in needs for need in needs[name])


@pytest.mark.parametrize("model", MODELS)
def test_the_recipes_are_sound(model):
    plan = recipe.plan(layers.read_library(), layers.read_recipe(model))
    assert plan.model == model
    assert {"edge", "firewall", "ssh", "journal", "firstboot"} <= set(plan.layers)


@pytest.mark.parametrize("model", MODELS)
def test_an_agent_does_not_write_the_memory_of_its_user_s_other_processes(model):
    plan = recipe.plan(layers.read_library(), layers.read_recipe(model))
    [rules] = [each.content for each in plan.files if each.path.startswith("/etc/sysctl.d/")]
    assert b"\nkernel.yama.ptrace_scope = 1\n" in rules


def test_a_value_changes_the_digest_and_nothing_else_does():
    library, of = layers.read_library(), layers.read_recipe("pi4")
    plain = recipe.plan(library, of)
    assert recipe.plan(library, of).digest == plain.digest
    assert recipe.plan(library, of, {"gpu_mem": 32}).digest != plain.digest


def test_the_layers_name_the_partitions_that_are_made():
    values = {"read_only": True}
    plan = recipe.plan(layers.read_library(), layers.read_recipe("pi4"), values)
    words = assemble.command_line(plan).split()
    assert f"root=PARTUUID={assemble.DISK}-02" in words
    assert f"sanderling.data=PARTUUID={assemble.DISK}-03" in words
    [fstab] = [file.content.decode() for file in plan.files if file.path == "/etc/fstab"]
    assert f"PARTUUID={assemble.DISK}-01" in fstab
    # The last word counts.
    assert words.index("ro") > words.index("rw")


def test_an_unknown_model_is_told_with_those_there_are():
    with pytest.raises(PlanError, match="no recipe for 'pi5'; there are pi3, pi4, zero2w"):
        layers.read_recipe("pi5")


def test_a_layer_is_in_a_file_of_its_name(tmp_path):
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers/a.toml").write_text('name = "b"\ndescription = ""\n')
    with pytest.raises(PlanError, match=r"call the file b\.toml"):
        layers.read_library(tmp_path)


def test_without_an_image_the_list_says_how_to_make_one(tmp_path, monkeypatch, capsys):
    (tmp_path / "fleet.toml").write_text(toml.dump(inventory()))
    monkeypatch.chdir(tmp_path)
    assert run(["image", "list"]) == exits.DONE
    assert capsys.readouterr().out == "no images; fleet image build makes one\n"
    assert run(["image", "list", "--json"]) == exits.DONE
    assert capsys.readouterr().out == "[]\n"
