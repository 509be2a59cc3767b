"""`fleet logs pull --local`: a run's folder comes to its lake."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleet.cli import commands
from fleet.common import exits, extras
from fleet.lake.pull import host_source, local
from fleet.lake.pull.pull import alone
from fleet.lake.schema.folder import Lake
from fleet.ssh.errors import HostError
from tests.fleet.lake.pull.masters import Master, landed

NODE = """[node]
name = "{name}"
areas = ["b1/f1/{name}"]
[master]
address = "tcp://127.0.0.1:5701"
[pods]
emulate = "{emulate}"
[[sensor]]
driver = "synthetic"
"""


class Run:
    """A run with two IADs, two nodes that were never started, and a registration service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = Lake(folder / "lake")
        self.masters = {name: Master(folder / name, name) for name in ("iad1", "iad2")}
        for name, emulate in (("n1", "pi3-boxed"), ("n2", "")):
            (folder / "iad1" / name).mkdir()
            config = NODE.format(name=name, emulate=emulate)
            (folder / "iad1" / name / "config.toml").write_text(config)
        (folder / "drs").mkdir()
        (folder / "drs/config.toml").write_text('[sockets]\npublic = "tcp://127.0.0.1:5790"\n')
        (folder / "results.json").write_text('{"seed": 1}')


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.delenv("SANDERLING_LAKE", raising=False)
    monkeypatch.chdir(tmp_path)
    found = Run(tmp_path / "var/demo")
    for master in found.masters.values():
        master.write(30)
    return found


@pytest.fixture
def fleet(capsys):
    def invoke(*arguments):
        capsys.readouterr()
        status = commands.run(["logs", "pull", *arguments])
        return status, *capsys.readouterr()

    return invoke


def test_all_records_come_with_the_run_s_results(run, fleet):
    status, out, err = fleet("--local", "--json")
    assert status == exits.DONE
    document = json.loads(out)
    rows = {row["host"]: row for row in document["hosts"]}
    assert list(rows) == ["iad1/master", "iad1/n1", "iad1/n2", "iad2/master"]
    assert rows["iad1/master"]["outcome"] == "done"
    assert rows["iad1/master"]["records"] == document["total"]["records"] / 2 == 30
    assert "iad2/master: 30 records (" in err
    assert "iad1/n2: nothing new (" in err
    for name, master in run.masters.items():
        assert sorted(landed(run.lake, name)) == sorted(master.lines)
    assert run.lake.client.read_text() == '{"seed": 1}'
    assert json.loads(fleet("--local", "--json")[1])["total"]["records"] == 0


def test_the_nodes_are_told_and_what_came_of_each_host(run, fleet):
    document = json.loads(fleet("--local", "--json")[1])
    nodes = pq.read_table(run.lake.nodes / f"{document['pull']}.parquet").to_pylist()
    assert [(row["iad"], row["node"], row["areas"], row["model"]) for row in nodes] == [
        ("iad1", "n1", ["b1/f1/n1"], "pi3"),
        ("iad1", "n2", ["b1/f1/n2"], "host"),
    ]
    pulls = pq.read_table(run.lake.pulls / f"{document['pull']}.parquet").to_pylist()
    assert pulls[0] == {
        "iad": "iad1",
        "host": "master",
        "time_ms": nodes[0]["time_ms"],
        "outcome": "done",
        "error": None,
        "bytes": document["hosts"][0]["bytes"],
        "records": 30,
        "groups": 0,
        "readings": 0,
        "expired_files": 0,
        "expired_groups": 0,
        "expired_readings": 0,
    }
    assert [row["host"] for row in pulls] == ["master", "n1", "n2", "master"]


def test_names_of_rooms_come_with_the_nodes_and_go_with_them(run, fleet):
    fleet("--local")
    assert not run.lake.rooms.exists()
    config = next(Path().glob("**/iad1/config.toml"))
    before = config.read_text()
    config.write_text(f'{before}\n[iad.rooms]\n"b1/f1/n1" = "Kitchen"\n')
    fleet("--local")
    assert json.loads(run.lake.rooms.read_text()) == {"b1/f1/n1": "Kitchen"}
    config.write_text(before)
    fleet("--local")
    assert json.loads(run.lake.rooms.read_text()) == {}


def test_options_choose_hosts_and_the_lake(run, fleet, tmp_path):
    status, out, err = fleet("--local", "var/demo", "--iad", "iad2", "--lake", "elsewhere")
    assert status == exits.DONE
    lake = Lake(tmp_path / "elsewhere")
    assert sorted(landed(lake, "iad2")) == sorted(run.masters["iad2"].lines)
    assert not (lake.records / "iad=iad1").exists()
    assert out.split()[:6] == ["host", "outcome", "records", "readings", "size", "expired"]
    assert "new in elsewhere: 30 records and 0 readings (" in err


def test_the_environment_names_the_lake(run, fleet, tmp_path, monkeypatch):
    monkeypatch.setenv("SANDERLING_LAKE", str(tmp_path / "named"))
    assert fleet("--local")[0] == exits.DONE
    assert landed(Lake(tmp_path / "named"))


def test_a_bound_is_for_all_hosts_together_and_says_that_there_is_more(run, fleet):
    total = sum(len(line) + 1 for master in run.masters.values() for line in master.lines)
    got = runs = 0
    while True:
        status, out, _ = fleet("--local", "--json", "--max-bytes", "3k", "--parallel", "1")
        assert status == exits.DONE
        document = json.loads(out)
        assert document["total"]["bytes"] < 3_500
        got += document["total"]["bytes"]
        runs += 1
        if all(row["outcome"] == "done" for row in document["hosts"]):
            break
    assert got == total
    assert runs >= total // 3_500
    assert sorted(landed(run.lake)) == sorted(run.masters["iad1"].lines)


def test_one_host_that_fails_does_not_spoil_the_run(run, fleet, monkeypatch):
    there = host_source.Here.run

    def fails(self, program, asked, take):
        def damaged(header, data):
            if header["at"] == "segment":
                raise HostError("lost", "not a word for 30 s")
            take(header, data)

        there(self, program, asked, damaged if "iad1" in self._config else take)

    monkeypatch.setattr(host_source.Here, "run", fails)
    status, out, err = fleet("--local", "--json", "--limit", "master")
    assert status == exits.FAILED
    rows = {row["host"]: row for row in json.loads(out)["hosts"]}
    assert rows["iad1/master"]["outcome"] == "lost"
    assert rows["iad1/master"]["error"] == "not a word for 30 s"
    assert "goes on where the connection broke" in rows["iad1/master"]["remedy"]
    assert rows["iad2/master"]["records"] == 30
    pulls = pq.read_table(next(run.lake.pulls.iterdir())).to_pylist()
    assert [(row["outcome"], row["error"]) for row in pulls] == [
        ("lost", "not a word for 30 s"),
        ("done", None),
    ]
    status, out, err = fleet("--local", "--iad", "iad1", "--limit", "master")
    assert status == exits.NOTHING
    assert "iad1/master: not a word for 30 s (run the same command again" in err
    monkeypatch.undo()
    monkeypatch.chdir(run.folder.parent.parent)
    assert fleet("--local")[0] == exits.DONE
    assert sorted(landed(run.lake)) == sorted(run.masters["iad1"].lines)


def test_a_full_disk_here_is_not_the_host_s_fault(run, fleet, monkeypatch):
    from fleet.lake.pull import records

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(records, "place", full)
    status, _, err = fleet("--local", "--limit", "master")
    assert status == exits.NOTHING
    assert "iad1/master: cannot be kept here: No space left on device\n" in err


def test_ctrl_c_keeps_what_came_and_says_so(run, fleet, monkeypatch):
    import signal
    import threading

    there = host_source.Here.run
    sent = threading.Event()

    def interrupts(self, program, asked, take):
        def taken(header, data):
            take(header, data)
            if header["at"] == "segment" and not sent.is_set():
                sent.set()
                signal.raise_signal(signal.SIGINT)
                while not stopped():
                    pass

        def stopped():
            return take.__self__._stop.wait(0.01)

        there(self, program, {**asked, "segment_bytes": 1_000}, taken)

    monkeypatch.setattr(host_source.Here, "run", interrupts)
    status, out, err = fleet("--local", "--json", "--parallel", "1")
    assert status == exits.INTERRUPTED
    rows = {row["host"]: row for row in json.loads(out)["hosts"]}
    assert rows["iad1/master"]["outcome"] == "interrupted"
    assert 0 < rows["iad1/master"]["records"] < 30
    assert rows["iad2/master"]["outcome"] == "skipped"
    assert len(landed(run.lake)) == rows["iad1/master"]["records"]
    assert err.endswith("fleet: interrupted; run it again: it continues where it stopped\n")
    pulls = pq.read_table(next(run.lake.pulls.iterdir())).to_pylist()
    assert [row["outcome"] for row in pulls] == ["interrupted"]


def test_only_one_pull_at_a_time(run, fleet):
    with alone(run.lake):
        status, _, err = fleet("--local")
    assert status == exits.NOTHING
    assert err == "fleet: another pull into var/demo/lake is under way\n"
    assert fleet("--local")[0] == exits.DONE


def test_what_a_pull_left_that_was_killed_goes(run, fleet):
    left = run.lake.staging / "pull/0123"
    left.parent.mkdir(parents=True)
    left.write_text("{")
    beside = run.lake.staging / "compaction.parquet"
    beside.touch()
    assert fleet("--local")[0] == exits.DONE
    assert not left.exists()
    assert beside.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--local", "nowhere"], "no run in nowhere: it has no folder of an IAD"),
        (["--local", "--fleet", "."], "exclude each other"),
        (["--local", "--max-bytes", "2"], "write 500M or 2G"),
        (["--local", "--max-bytes", "0G"], "write 500M or 2G"),
        (["--local", "--since", "lunch"], "'lunch' is no time"),
        (["--local", "--iad", "iad9"], "there is no IAD iad9"),
    ],
)
def test_wrong_usage_is_one_line(run, fleet, tmp_path, arguments, said):
    (tmp_path / "fleet.toml").write_text("")
    status, out, err = fleet(*arguments)
    assert (status, out) == (exits.USAGE, "")
    assert said in err
    assert err.count("\n") == 1


def test_no_demo_says_what_makes_one(tmp_path, fleet, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fleet("--local")[2] == (
        f"fleet: no run in {Path.cwd() / 'var/demo'}: `make demo` makes one; for a run of another "
        "folder, --local FOLDER\n"
    )


def test_a_configuration_that_is_broken_is_named(run, fleet):
    (run.folder / "iad1/config.toml").write_text("[iad]\n")
    status, _, err = fleet("--local")
    assert status == exits.USAGE
    assert "iad1/config.toml" in err


def test_without_pyarrow_nothing_is_begun(run, fleet, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    status, _, err = fleet("--local")
    assert status == exits.USAGE
    assert err.startswith("fleet: pyarrow, numpy are missing; `make pipeline` installs ")
    assert err.count("\n") == 1
    assert not run.lake.root.exists()


def test_the_model_of_a_node_is_what_it_emulates(run):
    found = local.run_in(run.folder)
    assert [node.model for node in found.fleet.iad[0].node] == ["pi3", "host"]
    assert found.configs["iad1/n1"] == run.folder / "iad1/n1/config.toml"
