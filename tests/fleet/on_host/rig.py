"""A host below a folder, and what is asked of it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.on_host.change import do
from fleet.on_host.files import current, digest_of, read_json
from fleet.on_host.host import Host
from fleet.ssh.remote import host_program

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
    seen: dict[str, Any] | None = None,
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
        "seen": seen,
        "start_s": 10,
        "window_s": 100,
    }
    return do(host, request, host_program(), None)


def run_of(host: Host, which: str) -> str:
    """The run whose switch can be undone."""
    found = read_json(host, f"/var/lib/sanderling-deploy/{which}.json") or {}
    return str(found.get("run", "r1"))


def confirm(host: Host, run: str = "", unit: str = UNIT) -> Any:
    run = run or run_of(host, "pending")
    return do(host, {"do": "confirm", "run": run, "check": True, "unit": unit}, b"", None)


def undo(host: Host, which: str = "pending", run: str = "", unit: str = UNIT) -> Any:
    request = {"do": "undo", "which": which, "reason": "sick", "unit": unit}
    return do(host, {**request, "run": run or run_of(host, which)}, b"", None)


def seen(host: Host, *paths: str) -> dict[str, Any]:
    """What a plan is based on that is made now."""
    found = pending(host)
    files = {path: digest_of(host, path) for path in paths}
    return {"run": found["run"] if found else "", "current": current(host), "files": files}


def push(host: Host, files: dict[str, str], owner: str = "root") -> Any:
    return do(host, {"do": "write", "unit": UNIT, "files": files_of(files, owner)}, b"", None)


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


def pending(host: Host) -> Any:
    path = Path(host.at("/var/lib/sanderling-deploy/pending.json"))
    return json.loads(path.read_text()) if path.exists() else None
