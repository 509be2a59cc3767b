"""An agent that is not what it was: what it puts into its folder is read with its own rights."""

from __future__ import annotations

import base64
import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.on_host import running as on_host

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

AGENT = 65_534
SECRET = b'{"secret": "of root alone"}\n'
RECORDS = {"known": {}, "since_ms": None, "segment_bytes": 1 << 20, "max_bytes": 1 << 30}
HISTORY = {"known": {}, "latest": "", "since_ms": None, "max_bytes": 1 << 30, "max_groups": 99}


class Site:
    """A host's folders, and root's secret beside them."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)  # all may enter it
        self.state, self.other, self.config = folder / "state", folder / "root", folder / "c.toml"
        self.other.mkdir(mode=0o700)
        (self.other / "records-000001.jsonl").write_bytes(SECRET)
        (self.other / "current.jsonl").write_bytes(SECRET)
        with sqlite3.connect(self.other / "db.sqlite") as db:
            db.execute("CREATE TABLE secret (of_root)")
        for path in self.other.iterdir():
            path.chmod(0o600)
        self.state.mkdir(mode=0o750)
        (self.state / "records").mkdir()
        self.config.write_text(
            f'[records]\ndirectory = "{self.state}/records"\n'
            f'[history]\npath = "{self.state}/history.sqlite"\n'
        )

    def read(self, program: str, asked: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        """What comes of it, and how it ended."""
        for path in (self.state, *self.state.rglob("*")):
            os.chown(path, AGENT, AGENT, follow_symlinks=False)
        asked = {**asked, "config": str(self.config)}
        request = {"do": "logs", "program": f"fleet.on_host.{program}", "asked": asked}
        *lines, end = on_host.run(request)
        return b"".join(zlib.decompress(base64.b64decode(line["data"])) for line in lines), end


@pytest.fixture
def site() -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp())
    yield Site(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["records-000001.jsonl", "current.jsonl"])
def test_a_link_in_place_of_records_shows_nothing_of_root_s(site: Site, name: str) -> None:
    (site.state / "records" / name).symlink_to(site.other / name)
    got, end = site.read("records", RECORDS)
    assert got == b""
    assert "Permission denied" in end["error"]


def test_a_link_in_place_of_their_folder_shows_nothing_of_root_s(site: Site) -> None:
    (site.state / "records").rmdir()
    (site.state / "records").symlink_to(site.other)
    got, end = site.read("records", RECORDS)
    assert got == b""
    assert "Permission denied" in end["error"]


@pytest.mark.parametrize("way", ["a link", "a folder that is one", "root's own link"])
def test_a_history_that_leads_to_root_s_is_not_looked_at(site: Site, way: str) -> None:
    if way == "a folder that is one":
        (site.state / "h").symlink_to(site.other)
        site.config.write_text(f'[history]\npath = "{site.state}/h/db.sqlite"\n')
    elif way == "a link":
        (site.state / "history.sqlite").symlink_to(site.other / "db.sqlite")
    else:
        (site.other.parent / "s").symlink_to("state")
        (site.state / "history.sqlite").symlink_to(site.other / "db.sqlite")
        site.config.write_text(f'[history]\npath = "{site.other.parent}/s/history.sqlite"\n')
    got, end = site.read("history", HISTORY)
    assert (got, end) == (b"", {"ok": True})
    # Without a log SQLite would have made one, as root.
    assert not list(site.other.glob("*-wal"))


def test_what_is_the_agent_s_own_is_read(site: Site) -> None:
    (site.state / "records/records-000001.jsonl").write_bytes(b'{"own": 1}\n')
    got, end = site.read("records", RECORDS)
    assert (got, end) == (b'{"own": 1}\n', {"ok": True})
