"""Commands that are told no address find the fleet that runs here, and only while it runs."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.scheduling.admission import unknown_service
from agent.wire.principals import Sender
from fleet.cli.commands import run
from fleet.query import known_areas, running
from fleet.query.running import Addresses
from fleet.testbed import page
from fleet.up import up as up_command
from tests.fleet.inventory.inventories import PLAIN

MASTERS = (
    Addresses("iad1", "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),
    Addresses("iad2", "tcp://127.0.0.1:3", "tcp://127.0.0.1:4"),
)


@pytest.fixture(autouse=True, params=["runtime", "tmp"])
def place(request, tmp_path, monkeypatch):
    """A machine with a folder for what runs, and one without."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if request.param == "runtime":
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def test_a_demo_is_found_while_it_runs():
    assert running.found() == []
    with running.announced(MASTERS):
        assert running.found() == [running.Running(os.getpid(), MASTERS, str(Path.cwd()))]
        assert running.operator_of("tcp://127.0.0.1:3") == "tcp://127.0.0.1:4"
        assert running.operator_of("tcp://127.0.0.1:9") is None
    assert running.found() == []
    assert running.operator_of("tcp://127.0.0.1:3") is None


def test_one_that_is_starting_is_not_asked_but_named(capsys):
    with running.announced(()):
        assert (running.found(), len(running.starting())) == ([], 1)
        for command in (["query", "--area", "b1"], ["status"], ["status", "--iad", "iad1"]):
            assert run(command) == 2
            told = f"the demo of {Path.cwd()} is starting; try again when it is up"
            assert capsys.readouterr().err == f"fleet: {told}\n"
        with running.announced(MASTERS):
            assert len(running.found()) == 1
    assert running.starting() == []


def test_a_demo_that_was_killed_is_not_found():
    script = (
        "import os\nfrom fleet.query import running\n"
        "with running.announced((running.Addresses('iad1', 'a', 'b'),)):\n"
        "    assert len(running.found()) == 1\n"
        "    os._exit(9)\n"
    )
    environment = os.environ | {"TMPDIR": str(Path.cwd())}
    assert (
        subprocess.run([sys.executable, "-c", script], check=False, env=environment).returncode == 9
    )
    assert len(list(running._place().iterdir())) == 1
    assert running.found() == []
    with running.announced(MASTERS):
        assert len(list(running._place().iterdir())) == 1, "what it left goes with the next one"
    assert list(running._place().iterdir()) == []


def test_of_two_demos_that_in_the_same_folder_is_meant_else_the_first(tmp_path, monkeypatch):
    with running.announced(MASTERS[:1]):
        other = tmp_path / "other"
        other.mkdir()
        monkeypatch.chdir(other)
        with running.announced(MASTERS[1:]):
            assert [demo.masters for demo in running.found()] == [MASTERS[1:], MASTERS[:1]]
            monkeypatch.chdir("/")
            assert [demo.masters for demo in running.found()] == [MASTERS[:1], MASTERS[1:]]
            for address in ("tcp://127.0.0.1:1", "tcp://127.0.0.1:3"):
                assert running.operator_of(address)
        assert [demo.masters for demo in running.found()] == [MASTERS[:1]]


def test_a_command_says_which_of_two_demos_it_asks_and_how_to_ask_the_other(capsys, tmp_path):
    with running.announced(MASTERS[:1]), running.announced(MASTERS[1:]):
        run(["query", "--area", "b1", "--timeout", "10ms"])
    says = capsys.readouterr().err.splitlines()
    assert says[:2] == [
        f"2 demos run here; asking that of {tmp_path}: --master tcp://127.0.0.1:1",
        f"another, of {tmp_path}: --master tcp://127.0.0.1:3",
    ]


def test_a_demo_beside_fleet_up_is_told_from_it(capsys, tmp_path):
    """Both are of one folder: the commands that `fleet up` suggests do not go to the demo."""
    with running.announced(MASTERS[:1]), running.announced(MASTERS[1:], "up"):
        run(["query", "--area", "b1", "--timeout", "10ms"])
        says = capsys.readouterr().err.splitlines()
        assert says[:2] == [
            f"2 fleets run here; asking the demo of {tmp_path}: --master tcp://127.0.0.1:1",
            f"the fleet of `fleet up` of {tmp_path}: --master tcp://127.0.0.1:3",
        ]
        demo, up = running.found()
        assert [each.partition("--master ")[2] for each in up_command._next(up, "b1")] == [
            "tcp://127.0.0.1:3"
        ] * 3
        assert up_command._next(demo, "b1")[0] == "query --area b1 --last 10m"


def test_whoever_looks_while_a_demo_begins_is_not_in_its_way(monkeypatch):
    """It has a shared lock on all that may be a demo just as the demo takes its own."""
    lock, held = fcntl.flock, []

    def looked(number, how):
        if how & fcntl.LOCK_EX:
            for path in running._files():
                held.append(os.open(path, os.O_RDONLY))
                lock(held[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
        lock(number, how)

    monkeypatch.setattr("fcntl.flock", looked)
    with running.announced(MASTERS):
        assert len(running.found()) == 1
    assert held == []


def test_a_torn_file_is_none():
    with running.announced(MASTERS):
        next(running._place().iterdir()).write_text("{")
        assert running.found() == []


def test_nothing_is_announced_where_nothing_can_be_written():
    running._place().parent.mkdir(exist_ok=True)
    running._place().write_text("in the way")
    with running.announced(MASTERS):
        assert running.found() == []


def test_a_full_disk_leaves_no_file_behind(monkeypatch):
    def full(_path, _content):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    with running.announced(MASTERS):
        assert running.found() == []
    assert list(running._place().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        (["query", "--area", "b1", "--timeout", "10ms"], "tcp://127.0.0.1:1"),
        (["service", "list", "--timeout", "10ms"], "tcp://127.0.0.1:2"),
        (["status", "--timeout", "10ms"], "tcp://127.0.0.1:2"),
    ],
)
def test_a_command_asks_the_demo_and_says_so(capsys, arguments, address):
    assert run(arguments) == 2  # nobody is there to be asked
    capsys.readouterr()
    with running.announced(MASTERS):
        assert run(arguments) == 4
    says = capsys.readouterr().err
    assert says.startswith("asking the demo that runs here: --")
    assert f" {address}\n" in says
    # A client's question reaches all IADs by any master; an operator's only that of one.
    others = "that is iad1's master alone; --iad asks another's: iad2\n"
    assert (others in says) == (address == "tcp://127.0.0.1:2")


def test_the_environment_goes_before_the_demo(capsys, monkeypatch):
    monkeypatch.setenv("SANDERLING_MASTER", "tcp://127.0.0.1:7")
    with running.announced(MASTERS):
        assert run(["query", "--area", "b1", "--timeout", "10ms"]) == 4
        assert "tcp://127.0.0.1:7" in capsys.readouterr().err
        monkeypatch.setenv("SANDERLING_MASTER", "here")
        assert run(["query", "--area", "b1"]) == 2
    assert "$SANDERLING_MASTER: 'here' is not an address" in capsys.readouterr().err


def test_in_a_fleets_folder_its_first_master_is_asked_and_the_demo_is_not(capsys, tmp_path):
    (tmp_path / "fleet.toml").write_text(PLAIN)
    with running.announced(MASTERS):
        assert run(["query", "--area", "b1"]) == 2
    asked, wrong = capsys.readouterr().err.splitlines()
    assert asked == f"asking the master of iad1, in {tmp_path}/fleet.toml; --iad NAME asks another"
    assert "keys" in wrong, "the fleet has none yet"


def test_of_several_operators_of_a_fleet_none_is_guessed(capsys, tmp_path):
    (tmp_path / "fleet.toml").write_text(PLAIN)
    assert run(["service", "list"]) == 2
    assert "give --iad NAME: iad1, iad2; see" in capsys.readouterr().err


def test_without_any_master_a_line_says_where_it_was_looked_for(capsys):
    assert run(["query", "--area", "b1"]) == 2
    assert capsys.readouterr().err == (
        "fleet: no master to ask: --master and --iad are not given, $SANDERLING_MASTER is not set, "
        "there is no fleet.toml here or above, and no demo or `fleet up` runs here; start one with "
        "`fleet up`; see fleet query --help\n"
    )


def test_what_fleet_up_started_is_asked_like_a_demo(capsys, tmp_path):
    with running.announced(MASTERS[:1], "up", tmp_path / "var/up", "replay:413"):
        [found] = running.found()
        assert (found.kind, found.directory) == ("up", str(tmp_path / "var/up"))
        run(["query", "--area", "b1", "--timeout", "10ms"])
    assert capsys.readouterr().err.startswith(
        "asking the fleet of `fleet up` that runs here: --master tcp://127.0.0.1:1\n"
    )


def test_a_link_to_the_first_page_names_those_of_others(capsys, tmp_path):
    config = '[master]\naddresses = ["tcp://127.0.0.1:1"]\n'
    configs = [tmp_path / name / page.GATEWAY / page.CONFIG for name in ("demo", "up")]
    for path in configs:
        path.parent.mkdir(parents=True)
        path.write_text(config)
    with (
        running.announced(MASTERS[:1], "demo", tmp_path / "demo"),
        running.announced(MASTERS[1:], "up", tmp_path / "up"),
    ):
        assert run(["gateway", "link"]) == 1
    said = capsys.readouterr()
    assert said.out == "", "neither page is served"
    assert said.err.splitlines()[:2] == [
        f"the page of the demo that runs here: --config {configs[0]}",
        f"another, the page of the fleet of `fleet up` that runs here: --config {configs[1]}",
    ]


def test_a_watched_status_of_one_master_names_the_command(capsys):
    with running.announced(MASTERS):
        assert run(["status", "--watch"]) == 2
    says = capsys.readouterr().err
    assert "watch -n 5 fleet status --operator tcp://127.0.0.1:2" in says


def test_a_refusal_names_the_command_that_goes_to_the_operator(capsys):
    from fleet.query import replies

    text = "no service nope here, 2 others; ask this IAD's operator"
    with running.announced(MASTERS):
        assert replies.refused(text, "tcp://127.0.0.1:1") == 3
        assert replies.refused(text, "tcp://127.0.0.1:9") == 3
        assert replies.refused("no service nope here; there is air", "tcp://127.0.0.1:1") == 3
        none = unknown_service("nope", (), Sender("anyone", ""))
        assert replies.refused(none, "tcp://127.0.0.1:1") == 3
    assert capsys.readouterr().err.splitlines() == [
        (
            "fleet: refused: no service nope here, 2 others; ask this IAD's operator: "
            "`fleet service list --operator tcp://127.0.0.1:2`"
        ),
        (
            "fleet: refused: no service nope here, 2 others; ask this IAD's operator: "
            "`fleet service list --operator ADDRESS` with the address of its operator socket, "
            "and name one with --service"
        ),
        "fleet: refused: no service nope here; there is air; choose one with --service",
        f"fleet: refused: {none}: `fleet service create`",
    ]


def test_where_nobody_answers_the_demo_that_runs_is_named(capsys):
    asked = ["query", "--master", "tcp://127.0.0.1:7", "--area", "b1", "--timeout", "10ms"]
    with running.announced(MASTERS):
        assert run(asked) == 4
        assert "A demo runs here at tcp://127.0.0.1:" in capsys.readouterr().err
    assert run(asked) == 4
    assert "A demo" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["topic", "show", "means", "--iad", "iad2"], "--operator tcp://127.0.0.1:4"),
        (["status", "--iad", "iad2"], "--operator tcp://127.0.0.1:4"),
        (["query", "--area", "b1", "--iad", "iad2"], "--master tcp://127.0.0.1:3"),
        (
            ["query", "--area", "b1", "--iad", "iad2,iad1"],
            "--master tcp://127.0.0.1:3,tcp://127.0.0.1:1",
        ),
    ],
)
def test_a_master_of_the_demo_is_asked_by_its_name(capsys, arguments, named):
    """A command says where a topic lives by the name of its IAD: so that must do."""
    with running.announced(MASTERS):
        assert run([*arguments, "--timeout", "10ms"]) == 4
    says = capsys.readouterr().err
    assert says.startswith(f"asking the demo that runs here: {named}\n")


def test_a_master_that_the_demo_has_not_is_named_with_those_that_it_has(capsys):
    with running.announced(MASTERS):
        assert run(["topic", "list", "--iad", "iad3"]) == 2
    says = capsys.readouterr().err
    assert says == "fleet: there is no IAD iad3 in the demo that runs here; it has iad1, iad2\n"


def test_by_name_a_fleet_goes_before_the_demo(capsys, tmp_path):
    (tmp_path / "fleet.toml").write_text("")
    with running.announced(MASTERS):
        assert run(["topic", "list", "--iad", "iad1"]) != 4
    assert "demo" not in capsys.readouterr().err


def test_by_name_without_a_fleet_or_a_demo_says_how_to_have_one(capsys):
    assert run(["topic", "list", "--iad", "iad1"]) == 2
    assert capsys.readouterr().err.startswith("fleet: no fleet.toml here or above; ")


def test_without_a_fleet_a_command_for_fleets_says_what_needs_none(capsys):
    assert run(["status"]) == 2
    assert capsys.readouterr().err.endswith(
        "; no demo or `fleet up` runs here either: `fleet up` starts one\n"
    )
    assert run(["logs", "pull"]) == 2
    assert capsys.readouterr().err.endswith("; --local pulls from the last demo\n")


def test_two_demos_of_one_folder_are_told_apart_by_their_files(capsys, tmp_path):
    first, second = tmp_path / "demo", tmp_path / "demo2"
    with (
        running.announced(MASTERS[:1], directory=first),
        running.announced(MASTERS[1:], directory=second),
    ):
        run(["query", "--area", "b1", "--timeout", "10ms"])
    says = capsys.readouterr().err.splitlines()
    assert says[:2] == [
        f"2 demos run here; asking that of {first}: --master tcp://127.0.0.1:1",
        f"another, of {second}: --master tcp://127.0.0.1:3",
    ]


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for():
    """Anybody can make the folder in /tmp first, and put into it what he likes."""
    running._place().mkdir(mode=0o700, parents=True)
    os.mkfifo(running._place() / "demo-1-a.json")
    assert running.found() == []
    with running.announced(MASTERS):
        assert len(running.found()) == 1


@pytest.mark.parametrize("whose", ["another's", "everybody's", "a link"])
def test_a_folder_that_others_can_write_to_is_not_used(whose, tmp_path, monkeypatch):
    """They could put a link in the place of a file that is about to be written."""
    place = running._place()
    folder = tmp_path / "elsewhere" if whose == "a link" else place
    folder.mkdir(mode=0o700, parents=True)
    if whose == "a link":
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(folder)
    elif whose == "everybody's":
        folder.chmod(0o777)
    else:
        uid = os.getuid()
        monkeypatch.setattr(running, "_place", lambda: place)
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with running.announced(MASTERS):
        assert running.found() == []
        assert not list(folder.iterdir())


def test_a_pipe_in_the_place_of_known_areas_is_not_waited_for():
    path = known_areas._file("tcp://127.0.0.1:1")
    path.parent.mkdir(mode=0o700, parents=True)
    os.mkfifo(path)
    assert known_areas._read(path) is None
