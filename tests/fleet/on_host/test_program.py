"""What changes a host, on folders that stand for one: every step, cut short anywhere, undone."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zmq

from fleet.hosts.remote import host_program
from fleet.on_host import files as files_module
from fleet.on_host.change import do
from fleet.on_host.host import Failure, Host

UNIT = "sanderling-edge.service"
CONFIG, SECRET = "/etc/sanderling/edge.toml", "/etc/sanderling/keys/node.secret"
TOOL = """#!/bin/sh
echo "$(basename $0) $*" >> {log}
case "$(basename $0) $*" in
    "systemctl show -p ActiveState"*) cat {state} ;;
    "systemctl show --value -p InvocationID"*) echo 1234 ;;
    "systemctl restart"*) if test -e {root}/broken; then rm {root}/broken; exit 1; fi ;;
    journalctl*) echo "history: the disk is upside down" ;;
esac
"""


class Fake(Host):
    """A host below a folder, whose commands only write down that they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "root"
        tools = folder / "tools"
        tools.mkdir()
        self.log = folder / "log"
        self.state = folder / "state"
        self.active(True)
        text = TOOL.format(log=self.log, state=self.state, root=self.folder)
        for name in ("systemctl", "systemd-run", "systemd-sysusers", "udevadm", "journalctl"):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        for path in ("run/systemd/transient", "opt/sanderling"):
            (self.folder / path).mkdir(parents=True)
        super().__init__(str(self.folder), f"{tools}/")
        self.lines: list[dict[str, Any]] = []

    def say(self, **line: object) -> None:
        self.lines.append(line)

    def active(self, active: bool) -> None:
        """Whether its unit is."""
        state = "active" if active else "failed"
        self.state.write_text(f"ActiveState={state}\nUnitFileState=enabled\n")

    @property
    def calls(self) -> list[str]:
        """The commands since this was asked last."""
        text = self.log.read_text() if self.log.exists() else ""
        self.log.write_text("")
        return text.splitlines()

    @property
    def journal(self) -> list[dict[str, Any]]:
        """What it wrote down of deployments."""
        path = self.folder / "var/lib/sanderling-deploy/journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    @property
    def files(self) -> dict[str, bytes]:
        """All that deployments may change."""
        found = {
            str(path.relative_to(self.folder)): path.read_bytes()
            for top in ("etc", "usr")
            for path in (self.folder / top).rglob("*")
            if path.is_file() and not path.name.startswith("sanderling-deploy-undo")
        }
        link = self.folder / "opt/sanderling/current"
        return found | ({"current": str(link.readlink()).encode()} if link.is_symlink() else {})


@pytest.fixture
def host(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def bundle(release: str) -> bytes:
    """A release for tests."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        for name, text in {"RELEASE": release, "lib/a.py": "a = 1"}.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


def stage(host: Host, release: str, content: bytes, offset: int = 0, **more: object) -> Any:
    request = {
        "do": "stage",
        "release": release,
        "name": "b.upload",
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "offset": offset,
        "remove": [],
    }
    return do(host, request | more, b"", io.BufferedReader(io.BytesIO(content[offset:])))  # type: ignore[arg-type]


def files_of(files: dict[str, str], owner: str = "root") -> list[dict[str, Any]]:
    return [
        {
            "path": path,
            "mode": 0o600,
            "owner": owner,
            "content": base64.b64encode(text.encode()).decode(),
        }
        for path, text in files.items()
    ]


def switch(
    host: Host,
    release: str,
    files: dict[str, str],
    run: str = "r1",
    gone: tuple[str, ...] = (),
    unit: str = UNIT,
    check: dict[str, str] | None = None,
) -> Any:
    # As `stage` leaves it.
    marker = Path(host.at(f"/opt/sanderling/releases/{release}/RELEASE"))
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(release)
    request = {
        "do": "switch",
        "run": run,
        "release": release,
        "unit": unit,
        "files": files_of(files),
        "gone": gone,
        "users": False,
        "rules": False,
        "units": True,
        "enable": True,
        "restart": True,
        "check": check,
        "start_s": 10,
        "window_s": 100,
    }
    return do(host, request, host_program(), None)


def confirm(host: Host, release: str, unit: str = UNIT) -> Any:
    request = {"do": "confirm", "release": release, "check": True, "unit": unit}
    return do(host, request, b"", None)


def undo(host: Host, which: str = "pending", unit: str = UNIT) -> Any:
    return do(host, {"do": "undo", "which": which, "reason": "sick", "unit": unit}, b"", None)


def push(host: Host, files: dict[str, str], owner: str = "root") -> Any:
    return do(host, {"do": "write", "unit": UNIT, "files": files_of(files, owner)}, b"", None)


def test_a_bundle_is_unpacked_and_its_upload_removed(host: Fake) -> None:
    assert stage(host, "1-a", bundle("1-a")) == {"ok": True}
    releases = host.folder / "opt/sanderling/releases"
    assert [path.name for path in releases.iterdir()] == ["1-a"]
    assert (releases / "1-a/RELEASE").read_text() == "1-a"
    assert list((releases / "1-a/lib").rglob("*.pyc")), "no byte code was in it, so it was made"
    assert stage(host, "1-a", b"not looked at") == {"ok": True}


def test_an_upload_that_broke_off_goes_on(host: Fake) -> None:
    content = bundle("1-a")
    with pytest.raises(Failure, match="40 bytes of the bundle did not come") as caught:
        do(
            host,
            {"do": "stage", "release": "1-a", "name": "b.upload", "offset": 0, "remove": [],
             "bytes": len(content), "sha256": ""},
            b"",
            io.BufferedReader(io.BytesIO(content[:-40])),  # type: ignore[arg-type]
        )  # fmt: skip
    assert caught.value.kind == "lost"
    upload = host.folder / "opt/sanderling/releases/b.upload"
    assert upload.stat().st_size == len(content) - 40
    stage(host, "1-a", content, offset=len(content) - 40)
    assert not upload.exists()


def test_a_damaged_bundle_is_removed_and_sent_again(host: Fake) -> None:
    with pytest.raises(Failure, match="damaged") as caught:
        stage(host, "1-a", bundle("1-a"), sha256="00")
    assert caught.value.kind == "lost"
    assert not list((host.folder / "opt/sanderling/releases").iterdir())


def test_a_bundle_of_another_release_leaves_nothing(host: Fake) -> None:
    with pytest.raises(Failure, match="holds release 1-b, not 1-a"):
        stage(host, "1-a", bundle("1-b"))
    assert not (host.folder / "opt/sanderling/releases/1-a").exists()
    assert not (host.folder / "opt/sanderling/releases/1-a.partial").exists()


def test_old_releases_and_left_overs_go_but_never_the_current(host: Fake) -> None:
    for release in ("1-a", "1-b"):
        stage(host, release, bundle(release))
    switch(host, "1-b", {})
    releases = host.folder / "opt/sanderling/releases"
    (releases / "1-x.partial").mkdir()
    (releases / "old.upload").touch()
    stage(host, "1-c", bundle("1-c"), remove=["1-a", "1-b"])
    assert {path.name for path in releases.iterdir()} == {"1-b", "1-c"}


def test_a_switch_that_is_confirmed_stays_and_can_be_undone_later(host: Fake) -> None:
    before = host.files
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    calls = host.calls
    assert "systemctl restart sanderling-edge.service" in calls
    armed = calls.index("systemctl start sanderling-deploy-undo.timer")
    assert "\nOnActiveSec=100\n" in (units(host) / "sanderling-deploy-undo.timer").read_text()
    # Read by systemd before it is armed, and armed before anything else is done.
    assert calls.index("systemctl daemon-reload") < armed
    assert armed < calls.index("systemctl enable --quiet sanderling-edge.service")
    path = host.folder / "etc/sanderling/edge.toml"
    assert path.read_text() == "one"
    assert path.stat().st_mode & 0o777 == 0o600
    confirm(host, "1-a")
    one = host.files
    switch(host, "1-b", {"/etc/sanderling/edge.toml": "two", "/etc/sanderling/new": "x"}, "r2")
    confirm(host, "1-b")
    assert [(each["release"], each["outcome"]) for each in host.journal] == [
        ("1-a", "kept"),
        ("1-b", "kept"),
    ]
    assert undo(host, "kept")["release"] == "1-a"
    assert host.files == one
    with pytest.raises(Failure, match="nothing is there to go back to"):
        undo(host, "kept")
    assert before == {}


EDGE = """\
[node]
name = "n1"
areas = ["b1"]
[master]
address = "tcp://127.0.0.1:5701"
keys = "keys/master.public"
[trust]
key = "keys/node.secret"
[history]
path = "../../var/lib/sanderling/history.sqlite"
[[sensor]]
interval_s = 2.0
"""
CHECKED = {"program": "sanderling-edge", "config": "edge.toml"}


def with_agent(host: Fake, release: str, script: str) -> None:
    """A release whose agent is `script`, on a host that has been deployed to before."""
    folder = host.folder / f"opt/sanderling/releases/{release}/bin"
    folder.mkdir(parents=True)
    (folder / "sanderling-edge").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "sanderling-edge").chmod(0o755)
    (host.folder / "var/lib/sanderling").mkdir(parents=True, exist_ok=True)


def deployed(host: Fake) -> None:
    """What the hosts of the next tests have: keys, which a switch leaves as they are."""
    switch(host, "1-a", key_files())
    confirm(host, "1-a")
    assert host.calls


def key_files() -> dict[str, str]:
    pair = zmq.curve_keypair()
    files = {"node.secret": pair[1].decode(), "master.public": pair[0].decode()}
    return {f"/etc/sanderling/keys/{name}": text for name, text in files.items()}


THIS_AGENT = f'exec {Path(sys.executable).with_name("sanderling-edge")} "$@"'


def test_a_switch_that_the_new_agent_refuses_touches_nothing(host: Fake) -> None:
    deployed(host)
    with_agent(host, "1-b", THIS_AGENT)
    before = host.files
    with pytest.raises(Failure) as caught:
        switch(
            host,
            "1-b",
            {"/etc/sanderling/edge.toml": f'{EDGE}driver = "dht"\n'},
            "r2",
            check=CHECKED,
        )
    assert str(caught.value) == (
        "nothing was touched, as 1-b refuses: /etc/sanderling/edge.toml: dht: give the pin of the "
        "sensor's data line, such as pin = 'D4'"
    )
    assert caught.value.more == {"refused": True}
    assert host.calls == []
    assert host.files == before
    assert not (host.folder / "var/lib/sanderling-deploy/pending.json").exists()


def test_the_new_agent_checks_what_will_be_there_and_touches_no_sensor(host: Fake) -> None:
    deployed(host)
    with_agent(host, "1-b", f"{THIS_AGENT}")
    # A DHT that is not there: the check would end with an error if it looked.
    files = {"/etc/sanderling/edge.toml": f'{EDGE}driver = "dht"\noptions = {{ pin = "D4" }}\n'}
    switch(host, "1-b", files, "r2", check=CHECKED)
    assert "systemctl restart sanderling-edge.service" in host.calls
    assert not (host.folder / "etc/.sanderling-tried").exists()
    confirm(host, "1-b")
    with_agent(host, "1-c", f"{THIS_AGENT}")
    with pytest.raises(Failure, match=r"/etc/sanderling/keys/node.secret: No such file"):
        switch(host, "1-c", files, "r3", gone=("/etc/sanderling/keys/node.secret",), check=CHECKED)


def test_a_first_switch_is_checked_too_and_nothing_is_left_of_it(host: Fake) -> None:
    """There is neither the agents' user nor their folder for state, and none is made."""
    with_agent(host, "1-a", THIS_AGENT)
    (host.folder / "var/lib/sanderling").rmdir()
    files = {"/etc/sanderling/edge.toml": f'{EDGE}driver = "dht"\n', **key_files()}
    with pytest.raises(Failure, match=r"nothing was touched, as 1-a refuses.*give the pin"):
        switch(host, "1-a", files, check=CHECKED)
    assert host.files == {}
    assert host.calls == []
    assert not (host.folder / "var/lib/sanderling").exists()
    files["/etc/sanderling/edge.toml"] += 'options = { pin = "D4" }\n'
    switch(host, "1-a", files, check=CHECKED)
    assert "systemctl restart sanderling-edge.service" in host.calls
    assert not (host.folder / "var/lib/sanderling").exists()


def test_what_a_killed_check_left_goes_with_the_next_run(host: Fake) -> None:
    """Secrets are in it."""
    tried = host.folder / "etc/.sanderling-tried/keys"
    tried.mkdir(parents=True)
    (tried / "node.secret").write_text("key")
    do(host, {"do": "remove", "remove": []}, b"", None)
    assert not tried.parent.exists()


@pytest.mark.parametrize(
    "script",
    [
        'echo "error: option --leave-sensors not recognized; usage: …" >&2; exit 2',
        "exit 0",
    ],
)
def test_a_release_from_before_this_check_is_switched_to_all_the_same(
    host: Fake, script: str
) -> None:
    deployed(host)
    with_agent(host, "1-0", script)
    switch(host, "1-0", {"/etc/sanderling/edge.toml": "any"}, "r2", check=CHECKED)
    assert "systemctl restart sanderling-edge.service" in host.calls


def test_a_unit_that_does_not_start_is_undone_at_once_with_its_own_last_word(host: Fake) -> None:
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    confirm(host, "1-a")
    before = host.files
    (host.folder / "broken").touch()
    with pytest.raises(Failure, match="upside down") as caught:
        switch(host, "1-b", {"/etc/sanderling/edge.toml": "two"}, "r2")
    assert caught.value.more == {"rolled_back": "1-a"}
    assert host.files == before
    assert host.journal[-1]["outcome"] == "rolled_back"
    assert "upside down" in host.journal[-1]["reason"]


def test_two_switches_without_a_verdict_are_undone_to_where_the_first_began(host: Fake) -> None:
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    confirm(host, "1-a")
    before = host.files
    switch(host, "1-b", {"/etc/sanderling/edge.toml": "two"}, "r2")
    switch(host, "1-c", {"/etc/sanderling/edge.toml": "3", "/etc/sanderling/new": "x"}, "r3")
    undo(host)
    assert host.files == before


def test_a_verdict_that_comes_too_late_is_refused(host: Fake) -> None:
    switch(host, "1-a", {})
    undo(host)
    with pytest.raises(Failure, match="went back by itself"):
        confirm(host, "1-a")


def test_an_agent_that_ended_meanwhile_is_undone_instead_of_confirmed(host: Fake) -> None:
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    host.active(False)
    with pytest.raises(Failure, match="upside down") as caught:
        confirm(host, "1-a")
    assert "rolled_back" in caught.value.more
    assert host.files == {}


STEPS = 16  # of a switch


@pytest.mark.parametrize("cut", range(STEPS + 1))
def test_a_switch_that_is_cut_anywhere_is_undone_whole(
    host: Fake, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    confirm(host, "1-a")
    before = host.files
    left = cut
    shutil.rmtree(units(host))  # all steps, as on a host of its own

    class PowerCut(BaseException):
        pass

    def failing(original: Any) -> Any:
        def step(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCut
            return original(*args, **options)

        return step

    for name in ("write", "set_current", "start", "arm", "save", "enable"):
        replace(monkeypatch, name, failing)
    files = {"/etc/sanderling/edge.toml": "two", "/etc/sanderling/new": "x"}
    with pytest.raises(PowerCut) if cut < STEPS else _nothing():
        switch(host, "1-b", files, "r2")
    monkeypatch.undo()
    if (host.folder / "var/lib/sanderling-deploy/pending.json").exists():
        undo(host)
    assert host.files == before


class _nothing:  # noqa: N801 - as contextlib's own
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def replace(monkeypatch: pytest.MonkeyPatch, name: str, by: Callable[[Any], Any]) -> None:
    """Let a function be what `by` makes of it, wherever the program calls it."""
    modules = [each for path, each in sys.modules.items() if path.startswith("fleet.on_host.")]
    found = [module for module in modules if callable(getattr(module, name, None))]
    assert found
    replaced = by(getattr(found[0], name))
    for module in found:
        monkeypatch.setattr(module, name, replaced)


def units(host: Fake) -> Path:
    return host.folder / "etc/systemd/system"


def start_host(host: Fake, number: int) -> Any:
    """It is started, and with it what the units start."""
    path = host.folder / "proc/sys/kernel/random/boot_id"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"boot-{number}\n")
    return do(host, {"do": "boot"}, b"", None)


def pending(host: Fake) -> Any:
    path = host.folder / "var/lib/sanderling-deploy/pending.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_a_host_that_is_started_before_the_verdict_waits_for_it_anew(host: Fake) -> None:
    start_host(host, 0)
    switch(host, "1-a", {CONFIG: "one"})
    before = pending(host)
    assert host.calls
    start_host(host, 1)
    assert pending(host)["deadline_s"] > before["deadline_s"]
    assert pending(host)["boot_id"] == "boot-1"  # so that facts know that a timer runs
    start_host(host, 1)  # somebody started the unit by hand
    assert host.calls == []
    assert host.files["etc/sanderling/edge.toml"] == b"one"
    assert confirm(host, "1-a") == {"ok": True}
    start_host(host, 2)
    assert host.files["etc/sanderling/edge.toml"] == b"one"


def test_a_host_that_does_not_stay_up_with_a_release_goes_back_before_its_agent_starts(
    host: Fake,
) -> None:
    start_host(host, 0)
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host, "1-a")
    before = host.files
    switch(host, "1-b", {CONFIG: "two"}, "r2")
    start_host(host, 1)
    assert host.files != before
    assert host.calls
    assert start_host(host, 2)["release"] == "1-a"
    assert host.files == before
    assert host.journal[-1]["outcome"] == "rolled_back"
    assert "started 2 times" in host.journal[-1]["reason"]
    # It must not wait for a unit that waits for it.
    calls = host.calls
    assert f"systemctl --no-block restart {UNIT}" in calls
    assert not [call for call in calls if call.startswith(("systemctl restart", "systemctl start"))]
    with pytest.raises(Failure, match="went back by itself"):
        confirm(host, "1-b")


def test_a_new_switch_has_its_own_starts(host: Fake) -> None:
    start_host(host, 0)
    switch(host, "1-a", {CONFIG: "one"})
    start_host(host, 1)
    switch(host, "1-b", {CONFIG: "two"}, "r2")
    start_host(host, 2)
    assert host.files["etc/sanderling/edge.toml"] == b"two"


def test_systemd_starts_what_undoes_at_each_start_of_the_host(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    wants = {path.parent.name: path for path in units(host).glob("*.wants/*")}
    assert set(wants) == {"timers.target.wants", "multi-user.target.wants"}
    for path in wants.values():
        assert path.readlink() == Path("/etc/systemd/system") / path.name
        assert (units(host) / path.name).exists()
    there = host.at("/var/lib/sanderling-deploy/pending.json")
    for name in ("sanderling-deploy-undo.timer", "sanderling-deploy-undo-boot.service"):
        assert f"\nConditionPathExists={there}\n" in (units(host) / name).read_text()
    assert (
        f"{host.at('/var/lib/sanderling-deploy/undo.py')} boot\n"
        in (units(host) / "sanderling-deploy-undo-boot.service").read_text()
    )
    host.calls  # noqa: B018 - empties it
    switch(host, "1-b", {CONFIG: "two"}, "r2")
    stop = host.calls.index("systemctl stop sanderling-deploy-undo.timer")
    assert stop == 0, "the time of the switch before is over"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_knows_every_line_of_its_units(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    for path in units(host).glob("sanderling-deploy-undo*"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", path],
            capture_output=True,
            text=True,
            check=False,
        )
        said = [line for line in done.stderr.splitlines() if "sanderling-deploy-undo" in line]
        assert (done.returncode, said) == (0, []), done.stderr


@pytest.mark.parametrize("argument", [(), ("boot",)])
def test_the_program_left_on_the_host_undoes_by_itself(
    host: Fake, argument: tuple[str, ...]
) -> None:
    """As the timer starts it, or the host's second start: without a request."""
    start_host(host, 0)
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    if argument:
        start_host(host, 1)
        (host.folder / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    program = host.at("/var/lib/sanderling-deploy/undo.py")
    done = subprocess.run(
        [sys.executable, "-I", program, *argument],
        env={"PATH": f"{host.tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["ok"]
    assert host.files == {}


FORMER = {
    "before": "1-a",
    "folder": "saved-1",
    "files": [
        {
            "path": CONFIG,
            "saved": "0",
            "mode": 0o644,
            "owner": [0, 0],
            "wrote": [hashlib.sha256(b"two").hexdigest()],
        },
        {"path": SECRET, "saved": None, "wrote": [hashlib.sha256(b"key").hexdigest()]},
    ],
    "unit": UNIT,
    "was_active": True,
    "was_enabled": True,
    "run": "r2",
    "release": "1-b",
    "boots": 1,
    "boot_id": "boot-1",
    "window_s": 100,
    "deadline_s": 1.0,
}


@pytest.mark.parametrize("way", ["boot", "pending", "kept", "switch"])
def test_what_the_program_of_one_file_left_on_a_host_is_understood(host: Fake, way: str) -> None:
    """As of 0.1.0, whose undo.py was that file; units and files have the same names."""
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host, "1-a")
    before = host.files
    switch(host, "1-b", {CONFIG: "two", SECRET: "key"}, "r2")
    there = host.folder / "var/lib/sanderling-deploy"
    (there / "undo.py").write_text("# one file\n")
    for path in ("pending.json", "kept.json"):
        (there / path).unlink(missing_ok=True)
    (there / "saved-1").mkdir()
    (there / "saved-1/0").write_text("one")
    (there / ("kept.json" if way == "kept" else "pending.json")).write_text(json.dumps(FORMER))
    if way == "boot":
        start_host(host, 2)
    elif way == "switch":
        switch(host, "1-c", {CONFIG: "three"}, "r3")
        assert (there / "undo.py").read_bytes() == host_program()
        undo(host)
    else:
        undo(host, way)
    assert host.files == before


def test_a_key_that_was_rotated_since_survives_a_rollback(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one", SECRET: "key 1"})
    confirm(host, "1-a")
    switch(host, "1-b", {CONFIG: "two", SECRET: "key 2"}, "r2")
    confirm(host, "1-b")
    assert push(host, {SECRET: "key 3"})["written"] == [SECRET]
    undo(host, "kept")
    assert host.files["etc/sanderling/edge.toml"] == b"one"
    assert host.files["etc/sanderling/keys/node.secret"] == b"key 3"


def test_a_power_cut_within_a_confirmation_leaves_all_that_undoes(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host, "1-a")
    before = host.files
    switch(host, "1-b", {CONFIG: "two", SECRET: "key"}, "r2")
    for name in ("replace", "rename", "rmdir", "unlink"):
        real = getattr(os, name)

        def cut(*args: Any, real: Any = real, **options: Any) -> None:
            real(*args, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(os, name, cut)
    with pytest.raises(KeyboardInterrupt):
        confirm(host, "1-b")
    monkeypatch.undo()
    there = host.folder / "var/lib/sanderling-deploy/pending.json"
    undo(host, "pending" if there.exists() else "kept")
    assert host.files == before


def test_stale_files_go_after_the_restart_and_come_back_with_a_rollback(host: Fake) -> None:
    stale = "/etc/sanderling/keys/iad-b.public"
    switch(host, "1-a", {CONFIG: "one", stale: "key of b"})
    confirm(host, "1-a")
    before = host.files
    switch(host, "1-a", {CONFIG: "two"}, "r2", gone=(stale, "/etc/sanderling/never"))
    assert set(before) - set(host.files) == {stale[1:]}
    confirm(host, "1-a")
    undo(host, "kept")
    assert host.files == before
    written = host.folder / "var/lib/sanderling-deploy/written.json"
    assert json.loads(written.read_text()) == {UNIT: [CONFIG, stale]}


def test_a_host_with_two_agents_is_only_undone_for_the_one_that_was_switched(host: Fake) -> None:
    other = "sanderling-master.service"
    switch(host, "1-a", {CONFIG: "one"})
    for act, *args in ((undo, "pending"), (confirm, "1-a"), (switch, "1-a", {})):
        with pytest.raises(Failure, match=f"was that of {UNIT}"):
            act(host, *args, unit=other)
    confirm(host, "1-a")
    with pytest.raises(Failure, match=f"was that of {UNIT}"):
        undo(host, "kept", unit=other)


def test_what_a_switch_without_a_verdict_goes_back_to_is_not_removed(host: Fake) -> None:
    for release in ("1-a", "1-b", "1-c"):
        stage(host, release, bundle(release))
    switch(host, "1-a", {})
    confirm(host, "1-a")
    switch(host, "1-b", {}, "r2")
    do(host, {"do": "remove", "remove": ["1-a", "1-b", "1-c", "", "..", "x/"]}, b"", None)
    releases = host.folder / "opt/sanderling/releases"
    assert {path.name for path in releases.iterdir()} == {"1-a", "1-b"}
    undo(host)
    assert (host.folder / "opt/sanderling/current").resolve().name == "1-a"


def test_nothing_is_put_back_where_the_release_before_is_gone(host: Fake) -> None:
    for release in ("1-a", "1-b"):
        switch(host, release, {CONFIG: release}, release)
        confirm(host, release)
    (host.folder / "opt/sanderling/releases/1-a/RELEASE").unlink()
    before = host.files
    with pytest.raises(Failure, match="1-a, which was there before, is gone"):
        undo(host, "kept")
    assert host.files == before


def test_a_file_that_cannot_be_put_back_can_be_tried_again(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host, "1-a")
    before = host.files
    switch(host, "1-b", {CONFIG: "two"}, "r2")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    replace(monkeypatch, "put_back", lambda _: full)
    with pytest.raises(Failure, match=r"rolled back with trouble: .*No space left"):
        undo(host)
    monkeypatch.undo()
    undo(host)
    assert host.files == before


def test_whatever_breaks_a_switch_it_is_undone_at_once(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host, "1-a")
    before = host.files

    def odd(*args: Any) -> None:
        raise KeyError("getpwnam(): name not found: 'sanderling'")

    replace(monkeypatch, "write_files", lambda _: odd)
    with pytest.raises(Failure) as caught:
        switch(host, "1-b", {CONFIG: "two"}, "r2")
    monkeypatch.undo()
    assert caught.value.more == {"rolled_back": "1-a"}
    assert host.files == before


def test_a_timer_that_cannot_be_armed_leaves_nothing_of_the_switch(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host, "1-a")
    before = host.files

    def odd(*args: Any) -> None:
        raise Failure("systemctl daemon-reload: Transport endpoint is not connected")

    replace(monkeypatch, "arm", lambda _: odd)
    with pytest.raises(Failure, match="daemon-reload") as caught:
        switch(host, "1-b", {CONFIG: "two"}, "r2")
    monkeypatch.undo()
    assert caught.value.more == {"rolled_back": "1-a"}
    assert host.files == before
    assert pending(host) is None
    assert host.journal[-1]["outcome"] == "rolled_back"


def test_the_journal_of_a_host_does_not_grow_for_ever(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_module, "JOURNAL_LINES", 3)
    host.folder.joinpath("var/lib/sanderling-deploy").mkdir(parents=True)
    for number in range(5):
        files_module.record(host, run=number)
    assert [line["run"] for line in host.journal] == [2, 3, 4]


# --- files alone ----------------------------------------------------------------------------------


@pytest.fixture
def configured(host: Fake) -> Fake:
    (host.folder / "etc/sanderling").mkdir(parents=True)
    return host


def test_files_are_written_once(configured: Fake) -> None:
    files = {CONFIG: "one", SECRET: "key"}
    assert push(configured, files) == {"ok": True, "written": [CONFIG, SECRET]}
    assert push(configured, files) == {"ok": True, "written": []}
    secret = configured.folder / SECRET[1:]
    secret.chmod(0o644)
    assert push(configured, files)["written"] == [SECRET]
    assert secret.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in secret.parent.iterdir()} == {"node.secret"}


def test_a_link_is_replaced_not_followed(configured: Fake, tmp_path: Path) -> None:
    keys = configured.folder / "etc/sanderling/keys"
    keys.mkdir()
    (tmp_path / "target").write_text("other")
    for name in ("node.secret", "node.secret.new"):
        (keys / name).symlink_to(tmp_path / "target")
    assert push(configured, {SECRET: "key"})["ok"]
    assert (tmp_path / "target").read_text() == "other"
    assert not (keys / "node.secret").is_symlink()


def test_files_do_not_wait_for_an_upload(configured: Fake) -> None:
    with configured.lock():
        assert push(configured, {SECRET: "key"})["ok"]


def test_files_need_a_deployment_first_and_a_user(host: Fake) -> None:
    with pytest.raises(Failure, match="there is no /etc/sanderling yet; fleet deploy sets it up"):
        push(host, {SECRET: "key"})
    with pytest.raises(Failure, match="no user nobody-of-that-name yet; fleet deploy makes"):
        files_module.user(Host("/"), "nobody-of-that-name")
