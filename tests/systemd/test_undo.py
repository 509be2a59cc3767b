"""What undoes a deployment, under a real systemd that is started again; `make test-systemd`."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from fleet.ssh.remote import BOOT, host_program
from testkit.nspawn import Machine, overlay, unmount
from tests.systemd.host import UNIT, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

RELEASES = "opt/sanderling/releases"
STATE = "var/lib/sanderling-deploy"
SETTING = "/etc/sanderling/edge.toml"
AGENT = """[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
"""


class Host(Machine):
    """A machine with an agent that does nothing, and releases of nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__("undo", folder, "--private-network")
        overlay(Path("/"), folder)
        try:
            for release in ("1-a", "1-b"):
                (self.root / RELEASES / release).mkdir(parents=True)
                (self.root / RELEASES / release / "RELEASE").write_text(release)
            (self.root / "etc/systemd/system" / UNIT).write_text(AGENT)
            (self.root / "etc/sanderling").mkdir()
            self.start()
            self.await_ready()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.stop()
        unmount(self.folder)

    def power_cut(self) -> None:
        """Cut, and switched on again."""
        self.kill()
        self.start()
        self.await_ready()

    def do(self, request: dict[str, object]) -> dict[str, object]:
        """What the operator has done there."""
        program, asked = host_program(), json.dumps(request).encode()
        sent = b"%d %d\n%b%b" % (len(program), len(asked), program, asked)
        said = self.run("/usr/bin/python3", "-I", "-c", BOOT, stdin=sent).splitlines()
        last: dict[str, object] = json.loads(said[-1])
        return last

    def switch(self, release: str, window_s: float) -> None:
        """Switch to a release, and give no verdict."""
        file = {"path": SETTING, "mode": 0o644, "owner": "root"}
        file["content"] = base64.b64encode(release.encode()).decode()
        request = {"do": "switch", "run": release, "release": release, "unit": UNIT}
        request |= dict.fromkeys(("users", "rules"), False)
        request |= dict.fromkeys(("units", "enable", "restart"), True)
        request |= {"files": [file], "gone": [], "start_s": 30, "window_s": window_s}
        answer = self.do(request)
        assert answer.get("ok"), answer

    def confirm(self, release: str) -> None:
        """It is good."""
        request = {"do": "confirm", "run": release, "check": True, "unit": UNIT}
        assert self.do(request) == {"ok": True}

    @property
    def current(self) -> str:
        """The release in use."""
        return (self.root / "opt/sanderling/current").readlink().name

    def state(self, unit: str) -> str:
        """Whether a unit is active."""
        return self.run("systemctl", "show", "--value", "-p", "ActiveState", unit).strip()


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    made = Host(tmp_path_factory.mktemp("host"))
    yield made
    made.close()


def test_a_host_that_is_started_again_and_again_goes_back(host):
    host.switch("1-a", 10_000)
    assert host.state("sanderling-deploy-undo.timer") == "active"
    host.confirm("1-a")
    assert host.state("sanderling-deploy-undo.timer") == "inactive"
    host.switch("1-b", 10_000)
    host.power_cut()
    assert host.current == "1-b"
    assert host.state("sanderling-deploy-undo.timer") == "active"
    host.power_cut()
    assert host.current == "1-a"
    assert (host.root / SETTING[1:]).read_text() == "1-a"
    assert host.state("sanderling-deploy-undo.timer") == "inactive"
    assert host.state(UNIT) == "active"
    assert not (host.root / STATE / "pending.json").exists()
    assert "started 2 times" in (host.root / STATE / "journal.jsonl").read_text()
    assert host.run("systemctl", "list-units", "--failed", "--no-legend", "sanderling*") == ""


def test_a_verdict_after_a_start_is_taken(host):
    host.switch("1-b", 10_000)
    host.power_cut()
    host.confirm("1-b")
    host.power_cut()
    assert (host.current, host.state("sanderling-deploy-undo.timer")) == ("1-b", "inactive")


def test_the_timer_of_the_start_undoes_when_its_time_is_over(host):
    host.switch("1-a", 20)
    host.power_cut()
    # It ends when the undoing has ended; the service is what the timer starts, and goes on for a
    # moment: it ends the timers of former versions.
    host.run(
        "/bin/sh",
        "-c",
        f"while [ -e /{STATE}/pending.json ]; do sleep 0.2; done; "
        "until systemctl show --property ActiveState --value sanderling-deploy-undo.service"
        " | grep -Eqx 'inactive|failed'; do sleep 0.2; done",
    )
    assert host.current == "1-b"


def test_former_versions_arm_their_timer_and_this_one_ends_it(host):
    host.run("systemd-run", "--unit=sanderling-undo", "--on-active=9999", "/bin/false")
    assert host.state("sanderling-undo.timer") == "active"
    host.switch("1-a", 10_000)
    assert host.state("sanderling-undo.timer") == "inactive"
    assert host.state("sanderling-deploy-undo.timer") == "active"
    host.confirm("1-a")
    assert host.state("sanderling-deploy-undo.timer") == "inactive"


CHECKED = """#!/bin/sh
held() {{ echo "sanderling-edge: error: $1" >&2; exit 2; }}
[ "$(id -un)" = sanderling ] || held "it is $(id -un)"
[ "$(cat {config})" = "key" ] || held "its configuration cannot be read"
grep -q '^NoNewPrivs:.*1$' /proc/self/status || held "it may get new rights"
[ -z "$(ls /tmp)" ] || held "it sees /tmp"
touch /var/lib/sanderling/own || held "it cannot write to its state"
[ {verdict} = fine ] || held "no sensors"
"""


def test_a_check_is_confined_as_the_agent_is(host):
    """It is of the same user, and so open to an agent that was taken over."""
    (host.root / "tmp/of-others").touch()
    host.run("useradd", "--system", "sanderling")
    host.run("install", "-d", "-o", "sanderling", "-m", "750", "/var/lib/sanderling")
    key = {"path": "/etc/sanderling/node.secret", "mode": 0o600, "owner": "sanderling"}
    key["content"] = base64.b64encode(b"key").decode()
    request = {"do": "switch", "run": "c", "release": "1-a", "unit": UNIT, "files": [key]}
    request |= dict.fromkeys(("users", "rules", "units", "enable", "restart"), False)
    request |= {"gone": [], "start_s": 30, "window_s": 10_000}
    request["check"] = {"program": "sanderling-edge", "config": "node.secret"}
    program = host.root / RELEASES / "1-a/bin/sanderling-edge"
    program.parent.mkdir()
    for verdict in ("bad", "fine"):
        text = CHECKED.format(config="/etc/.sanderling-tried/node.secret", verdict=verdict)
        program.write_text(text)
        program.chmod(0o755)
        answer = host.do(request)
        if verdict == "bad":
            assert answer["error"] == "nothing was touched, as 1-a refuses: no sensors"
    assert answer.get("ok"), answer
