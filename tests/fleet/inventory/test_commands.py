"""`fleet init` and `fleet inventory` as a user runs them."""

from __future__ import annotations

import json
import re
import resource
import tomllib
from pathlib import Path

import pytest

from agent.overlay.scot import BrokerId
from fleet.cli import commands
from fleet.inventory.effective import overlay_of
from fleet.inventory.folder import Folder, NoFleetError, find
from fleet.inventory.loader import load
from fleet.inventory.problems import problems, warnings
from fleet.inventory.template import template
from fleet.keys.store import Store
from tests.fleet.inventory.inventories import PLAIN, read


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Here is the plain inventory."""
    monkeypatch.delenv("SANDERLING_FLEET", raising=False)
    (tmp_path / "fleet.toml").write_text(PLAIN)
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = commands.run(arguments)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    status, out, err = run(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


# --- init -------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 300])
@pytest.mark.parametrize("local_master", [False, True])
def test_what_init_writes_passes_the_check(nodes: int, local_master: bool):
    fleet = read(template("campus", "iad4", nodes, local_master=local_master))
    assert problems(fleet) == warnings(fleet) == []
    assert (fleet.name, fleet.iad[0].name, len(fleet.iad[0].node)) == ("campus", "iad4", nodes)
    assert fleet.iad[0].master.local is local_master
    assert sum("canary" in node.groups for node in fleet.iad[0].node) == 1


@pytest.mark.parametrize("local_master", [False, True])
def test_what_stands_there_in_comments_is_right_too(local_master: bool):
    text = template("campus", "iad4", 1, local_master=local_master)
    settings = re.compile(r"^# ((?:\w+ = |\[\[).*)$", re.MULTILINE)
    assert len(settings.findall(text)) > 10
    # The second [[group.sensor]] is to take the place of the first.
    synthetic = '[[group.sensor]]\ndriver = "synthetic"    # readings without hardware\n'
    assert synthetic in text
    whole = settings.sub(r"\1", text.replace(f"{synthetic}interval_s = 1.0\n", ""))
    whole = whole.replace('areas = ["b1"]', 'areas = ["b1"] ')
    fleet = read(whole)
    assert problems(fleet) == []
    assert fleet.group[0].sensor[0].driver == "dht"
    assert fleet.person[0].name == "app"
    assert fleet.releases.pin
    assert overlay_of(fleet).places == {"iad4": BrokerId("all", 0)}
    assert [hook.name for hook in fleet.iad[0].master.webhook] == ["pager"]
    assert [trigger.name for trigger in fleet.group[0].trigger] == ["hot"]


def test_init_makes_a_folder_that_git_keeps_no_secret_of(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert data(capsys, "init", "my fleet", "--nodes", "3") == {
        "folder": "my fleet",
        "files": ["my fleet/fleet.toml", "my fleet/.gitignore"],
    }
    assert "/keys/\n" in (tmp_path / "my fleet/.gitignore").read_text()
    assert "/masters/\n" in (tmp_path / "my fleet/.gitignore").read_text()
    assert "/keys.*/\n" in (tmp_path / "my fleet/.gitignore").read_text()
    fleet = load(Folder(tmp_path / "my fleet"))
    assert (fleet.name, len(fleet.iad[0].node)) == ("my-fleet", 3)


def test_init_says_what_comes_next_on_stderr(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "init")
    assert (status, out) == (0, "")
    assert err.splitlines()[0] == "wrote fleet.toml and .gitignore"
    assert "fleet inventory check, then fleet keys init" in err


def test_an_inventory_that_finds_no_room_leaves_nothing(tmp_path, monkeypatch, capsys):
    """An empty one was left as it is by the next call."""
    monkeypatch.chdir(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        status, _, err = run(capsys, "init", "there")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (status, err) == (2, "fleet: there: File too large\n")
    assert run(capsys, "init", "there")[0] == 0


def test_init_replaces_nothing(folder, capsys):
    status, out, err = run(capsys, "init")
    assert (status, out) == (2, "")
    assert err == "fleet: fleet.toml is there already, and stays as it is\n"
    assert folder.inventory.read_text() == PLAIN
    assert not (folder.root / ".gitignore").exists()


def test_init_adds_to_a_gitignore(tmp_path, capsys):
    (tmp_path / ".gitignore").write_text("*.pyc\n/keys/")
    assert run(capsys, "init", str(tmp_path))[0] == 0
    lines = (tmp_path / ".gitignore").read_text().splitlines()
    assert lines[:2] == ["*.pyc", "/keys/"]
    assert len(lines) == len(set(lines)) == 8


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--iad", ".."], "an IAD cannot be called .."),
        (["--iad", "a b"], "'a b' is not a name"),
        (["--nodes", "0"], "--nodes"),
        (["/dev/null"], "/dev/null"),
        (["/dev/null/x"], "Not a directory"),
    ],
)
def test_init_refuses_in_one_line(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "init", *arguments)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# --- which fleet ------------------------------------------------------------------------------


def test_the_fleet_is_the_nearest_one_upwards(folder, monkeypatch, capsys):
    below = folder.root / "a/b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert find().root == folder.root
    assert run(capsys, "inventory", "check")[0] == 0


def test_an_option_and_a_variable_name_another(folder, tmp_path_factory, monkeypatch, capsys):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    with pytest.raises(NoFleetError, match="`fleet init` writes one"):
        find()
    status, out, err = run(capsys, "inventory", "check")
    assert (status, out) == (2, "")
    assert err.startswith("fleet: no fleet.toml here or above; `fleet init` writes one, --fleet ")
    assert err.count("\n") == 1
    assert run(capsys, "inventory", "check", "--fleet", str(folder.root))[0] == 0
    monkeypatch.setenv("SANDERLING_FLEET", str(folder.root))
    assert run(capsys, "inventory", "check")[0] == 0
    status, _, err = run(capsys, "inventory", "check", "--fleet", str(elsewhere))
    assert (status, err) == (2, f"fleet: {elsewhere}/fleet.toml, from --fleet, is not there\n")
    monkeypatch.setenv("SANDERLING_FLEET", str(elsewhere))
    status, _, err = run(capsys, "inventory", "check")
    assert (status, err) == (
        2,
        f"fleet: {elsewhere}/fleet.toml, from $SANDERLING_FLEET, is not there\n",
    )


# --- check ------------------------------------------------------------------------------------


def test_check_counts_what_there_is(folder, capsys):
    status, out, err = run(capsys, "inventory", "check")
    assert (status, err) == (0, "")
    assert out == f"{folder.inventory}: 2 IADs, 3 nodes, 2 groups, 1 person; no problem\n"
    found = data(capsys, "inventory", "check")
    assert found["counts"] == {"iads": 2, "nodes": 3, "groups": 2, "persons": 1}
    assert found["problems"] == found["warnings"] == []


def test_check_says_everything_at_once(folder, capsys):
    text = PLAIN.replace('["sensing", "canary"]', '["sensing", "cnary"]').replace(
        "10.1.1.2", "10.1.1.1"
    )
    folder.inventory.write_text(text + '\n[ssh]\nkey = "~/none"\n')
    status, out, err = run(capsys, "inventory", "check")
    assert (status, err) == (2, "")
    lines = out.splitlines()
    assert len(lines) == 5
    assert "did you mean canary?" in lines[0]
    assert "have the same address" in lines[1]
    assert "there is no file ~/none" in lines[2]
    assert lines[3].startswith("warning: group canary has no node")
    assert lines[4].endswith("; 3 problems")
    status, out, _ = run(capsys, "inventory", "check", "--json")
    assert (status, len(json.loads(out)["problems"])) == (2, 3)


def test_check_of_a_file_that_cannot_be_read(folder, capsys):
    folder.inventory.write_text(PLAIN.replace("groups =", "group ="))
    status, out, _ = run(capsys, "inventory", "check", "--json")
    found = json.loads(out)
    assert (status, found["counts"]) == (2, None)
    assert found["problems"][0].endswith("unknown key group; did you mean groups?")


def test_other_commands_say_the_first_and_how_many(folder, capsys):
    folder.inventory.write_text(PLAIN.replace('"synthetic"', '"x"').replace("10.1.1.2", "10.1.1.1"))
    status, out, err = run(capsys, "inventory", "show")
    assert (status, out) == (2, "")
    assert err.startswith(f"fleet: {folder.inventory}: iad1/n1 and iad1/n2 have the same address")
    assert err.endswith("(and 1 more: `fleet inventory check`)\n")


# --- show, graph ------------------------------------------------------------------------------


def test_show_has_a_row_for_each_iad_and_node(folder, capsys):
    status, out, err = run(capsys, "inventory", "show")
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    assert "release" not in out
    rows = [line.split() for line in out.splitlines()]
    assert rows[1] == ["iad1", "10.1.0.10", "5700", "5701", "5702", "2", "b1/f1/r1,", "b1/f1/r2"]
    assert rows[5] == ["iad1/n1", "10.1.1.1", "pi4", "b1/f1/r1", "synthetic", "sensing,", "canary"]
    assert len(rows) == 8


def test_show_has_releases_where_some_are_chosen(folder, capsys):
    folder.inventory.write_text(PLAIN.replace("canary = true", 'release = "0.1.0-00000000"'))
    _, out, _ = run(capsys, "inventory", "show")
    assert [line.split()[-1] for line in out.splitlines()[5:8]] == ["0.1.0-00000000", "–", "–"]
    found = data(capsys, "inventory", "show", "--limit", "iad1/*")
    assert [iad["name"] for iad in found["iads"]] == ["iad1"]
    releases = [host["release"] for host in found["iads"][0]["hosts"]]
    assert releases == ["", "0.1.0-00000000", ""]


def test_show_files_hides_secrets(folder, capsys):
    Store(folder).ensure(load(folder))
    secrets = [line for p in folder.keys.rglob("*.secret") for line in p.read_text().splitlines()]
    secrets = [line for line in secrets if line and not line.startswith("#")]
    assert len(secrets) > 5
    for host in ("iad1/n1", "iad1/master"):
        status, out, _ = run(capsys, "inventory", "show", "--host", host, "--files")
        assert status == 0
        assert "(secret)" in out
        as_json = run(capsys, "inventory", "show", "--host", host, "--files", "--json")[1]
        assert not any(secret in out or secret in as_json for secret in secrets)
        by_path = {file["path"]: file for file in json.loads(as_json)["files"]}
        name = "edge.toml" if host == "iad1/n1" else "master.toml"
        assert tomllib.loads(by_path[name]["content"])
        assert (
            by_path[f"keys/{'node' if host == 'iad1/n1' else 'master'}.secret"]["content"] is None
        )


def test_show_files_does_without_keys(folder, capsys):
    status, out, _ = run(capsys, "inventory", "show", "--host", "iad1/n1", "--files")
    assert status == 0
    assert "# not made yet: fleet keys init" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--files"], "--host and --files come together"),
        (["--host", "iad1/n1"], "--host and --files come together"),
        (["--host", "iad1/n1", "--files", "--iad", "iad1"], "--host is one host"),
        (["--host", "iad1/n7", "--files"], "there is no host iad1/n7; did you mean iad1/n"),
        (["--iad", "iad3"], "there is no IAD iad3; did you mean iad"),
        (["--group", "cnary"], "did you mean canary?"),
    ],
)
def test_show_refuses_in_one_line(folder, capsys, arguments, says):
    status, out, err = run(capsys, "inventory", "show", *arguments)
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_graph_draws_every_host_and_area_once(folder, capsys):
    status, out, _ = run(capsys, "inventory", "graph")
    assert status == 0
    assert out.startswith("flowchart LR\n")
    for name in ("iad1", "iad2", "b1/f1/r1", "b1/f1/r2", "b2/f1/r1", "n2"):
        assert out.count(f'"{name}"') == 1
    assert out.count("subgraph") == out.count("    end\n") == out.count("pool --- m") == 2
    assert out.count(" --> a") == 3


def test_graph_for_graphviz_is_balanced_and_the_same(folder, capsys):
    _, out, _ = run(capsys, "inventory", "graph", "--dot", "--iad", "iad1")
    assert out.startswith("digraph fleet {\n")
    assert out.count("{") == out.count("}") == 2
    assert out.count(" -> a") == 2
    assert "pool" not in out
