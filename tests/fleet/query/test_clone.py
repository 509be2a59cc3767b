"""`fleet clone`: what it prints, and how it ends."""

from __future__ import annotations

import io

import pytest
import zmq
from msgspec.structs import replace
from rich.console import Console

from agent.wire.clones import CloneOf, CloneStatus
from fleet.cli import connecting
from fleet.cli.commands import run
from fleet.query import clone_screen
from fleet.query.clone_apply import Changes, changes
from tests.fleet.inventory.inventories import PLAIN
from tests.master.push_rig import PushMaster
from tests.master.rig import FakeNode

CLONE = CloneOf("iad1/n1", "comfort_index", every_s=5.0, peers=("iad1/n2",), leaves=True)
STATUS = CloneStatus(
    CLONE, "clone-0123456789abcdef", "open", "iad2", rounds=9, rounds_failed=1, outputs=8, waiting=3
)


def shown(print_it, what) -> list[str]:
    file = io.StringIO()
    print_it(Console(file=file, width=120, highlight=False), what)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_list_shows_how_many_values_wait_for_each_device():
    heads, row = shown(clone_screen.show_list, (STATUS,))
    assert heads.split()[-3:] == ["in", "out", "state"]
    assert row.split() == [
        "iad1/n1", "comfort_index", "iad2", "clone-0123456789abcdef", "8", "8", "3", "wait",
    ]  # fmt: skip
    assert shown(clone_screen.show_list, ()) == ["no clones"]
    assert "  8 outputs given to the device, 3 of them wait for it" in shown(
        clone_screen.show_clone, STATUS
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("n3",), "'n3' is not a device; write its IAD and its name: iad4/n3"),
        (("a/b/c",), "'a/b/c' is not a device; write its IAD and its name: iad4/n3"),
        (("iad4/n3", "--peer", "n4"), "'n4' is not a device; write its IAD and its name: iad4/n3"),
        (("iad4/n3", "--every", "soon"), "--every"),
        (("iad4/n3", "--set", "a"), "'a' is not name=value"),
    ],
)
def test_wrong_usage_is_one_line(capsys, arguments, says):
    arguments = (*arguments, "--processor", "comfort_index", "--operator", "tcp://127.0.0.1:1")
    status = run(["clone", "create", *arguments])
    err = capsys.readouterr().err
    assert status == 2
    assert says in err
    assert err.count("\n") == 1


def test_clones_of_a_master_that_is_alone(tmp_path, capsys):
    master = PushMaster(tmp_path, "iad1")
    context = zmq.Context()
    there = ("--operator", master.operator)

    def ask(*arguments, status=0):
        assert run(["clone", *arguments, *there]) == status
        return capsys.readouterr()

    def create(device, *arguments, processor="comfort_index", status=0):
        found = ask("create", device, "--processor", processor, *arguments, status=status)
        assert (found.out + found.err).count("\n") == 1
        return found.out or found.err

    try:
        node = FakeNode(context, master.nodes, "n1", ("b1/f4/r1",))
        assert ask("list").out == "no clones\n"
        assert create("iad1/n9", status=3) == (
            "fleet: refused: no node n9 is known here; start it first\n"
        )
        assert create("iad2/n1", status=3) == (
            "fleet: refused: iad2/n1 is a device of iad2; this is the master of iad1: "
            "ask --iad iad2\n"
        )
        assert "refused: no processor cuont here; there are " in create(
            "iad1/n1", processor="cuont", status=3
        )
        unknown = create("iad1/n1", "--peer", "iad7/n2", status=3)
        assert unknown == (
            "fleet: refused: iad7 is not in this master's pool; those that are: none\n"
        )
        assert create("iad1/n1", "--peer", "iad1/n1", status=3) == (
            "fleet: refused: iad1/n1 cannot be its own peer\n"
        )
        assert ask("remove", "iad1/n1", status=3).err == (
            "fleet: refused: iad1/n1 has no clone here; those that do: none\n"
        )
        for _ in range(2):  # the same again changes nothing
            line = create("iad1/n1", "--leaves", "--every", "1h")
            assert line.startswith("iad1/n1 has a clone: topic clone-")
            assert line.endswith("; it may leave, but no other master is known here\n")
        assert create("iad1/n1", "--every", "1h", status=3) == (
            "fleet: refused: iad1/n1 has another clone; remove that first\n"
        )
        assert "iad1/n1" in ask("list").out
        assert "it may leave its IAD" in ask("show", "iad1/n1").out
        assert "see fleet clone list" in ask("show", "iad1/n2", status=1).err
        assert ask("show", "n1", status=1).err.endswith("; did you mean iad1/n1?\n")
        assert ask("remove", "iad1/n1").out == "iad1/n1 has no clone any more\n"
        node.socket.close()
    finally:
        master.stop()
        context.destroy(0)


OF_THE_DEMO = CloneStatus(
    CloneOf("iad1/iad1-n1", "comfort_index", every_s=1.0),
    "clone.6d7c68fd4ac09610",
    "open",
    iad="iad1",
    rounds=1_033,
    rounds_failed=9,
    outputs=1_024,
)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (OF_THE_DEMO, "well"),
        (replace(OF_THE_DEMO, trouble="its last round brought nothing"), "trouble"),
    ],
)
def test_a_list_has_a_line_for_a_clone_well_or_not_in_eighty_columns(status, state):
    file = io.StringIO()
    clone_screen.show_list(Console(file=file, width=80, highlight=False), (status,))
    header, line = file.getvalue().splitlines()
    assert header.split()[-1] == "state"
    assert line.split() == [
        "iad1/iad1-n1", "comfort_index", "iad1", "clone.6d7c68fd4ac09610", "1024", "1024", state,
    ]  # fmt: skip


def test_what_differs_is_found_whatever_the_order_and_whatever_the_master_filled_in():
    there = replace(CLONE, areas=("b1/r1",), peers=("iad1/n3", "iad1/n2"))
    same = replace(CLONE, peers=("iad1/n2", "iad1/n3"))
    ended = CloneStatus(CloneOf("iad1/n7", "p"), "t", "ending")
    found = changes((same,), (replace(STATUS, clone=there), ended))
    assert found == Changes((), {}, ())
    other = replace(same, every_s=1.0, parameters={"a": 1.0})
    missing = CloneOf("iad1/n7", "p")
    found = changes((missing, other), (replace(STATUS, clone=there), ended))
    assert found.create == (missing,)
    assert found.differ == {"iad1/n1": {"parameters": ({}, {"a": 1.0}), "every_s": (5.0, 1.0)}}
    assert changes((), (STATUS, ended)).others == ("iad1/n1",)


def test_the_clones_of_an_inventory_are_applied_again_and_again(tmp_path, capsys, monkeypatch):
    master = PushMaster(tmp_path / "master", "iad1")
    context = zmq.Context()
    monkeypatch.setattr(connecting, "of_fleet", lambda *_: (master.operator, None))

    def apply(text, *arguments, status=0):
        (tmp_path / "fleet.toml").write_text(text)
        there = ("--fleet", str(tmp_path), "--iad", "iad1", *arguments)
        assert run(["clone", "apply", *there]) == status
        found = capsys.readouterr()
        return [*found.out.splitlines(), *found.err.splitlines()]

    wanted = PLAIN.replace(
        'name = "sensing"\n',
        'name = "sensing"\n[group.clone]\nprocessor = "comfort_index"\nevery_s = 3600\n',
        1,
    )
    try:
        nodes = [FakeNode(context, master.nodes, "n1", ("b1/f1/r1",))]
        made, same, refused = apply(wanted, status=3)
        assert made.startswith("iad1/n1 has a clone: topic clone.")
        assert same == "0 of 2 clones were there as they are wanted"
        assert refused == "fleet: refused: no node n2 is known here; start it first"
        nodes.append(FakeNode(context, master.nodes, "n2", ("b1/f1/r2",)))
        made, same = apply(wanted)
        assert made.startswith("iad1/n2 has a clone")
        assert apply(wanted) == ["2 of 2 clones were there as they are wanted"]
        differs, again, _ = apply(wanted.replace("3600", "1800"), status=1)
        assert differs == (
            "iad1/n1 has another clone: every_s is 3600.0, wanted 1800.0. "
            "Remove it, and apply again"
        )
        assert again.startswith("iad1/n2")
        kept = [
            f"iad1/{name} has a clone that is not in the inventory; --prune removes it"
            for name in ("n1", "n2")
        ]
        assert apply(PLAIN) == [*kept, "0 of 0 clones were there as they are wanted"]
        ended, also, _ = apply(PLAIN, "--prune")
        assert ended == "iad1/n1 has no clone any more"
        assert also == "iad1/n2 has no clone any more"
        assert apply(PLAIN) == ["0 of 0 clones were there as they are wanted"]
        for node in nodes:
            node.socket.close()
    finally:
        master.stop()
        context.destroy(0)
