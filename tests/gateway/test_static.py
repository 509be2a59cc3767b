"""The console's files: they stand alone and are small; those of others are as published."""

import gzip
import hashlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "agent/gateway/static"
VENDOR = STATIC / "vendor"
INDEX = (STATIC / "index.html").read_text()
OURS = sorted(
    path
    for path in STATIC.rglob("*")
    if path.suffix in {".js", ".css", ".html", ".svg"} and VENDOR not in path.parents
)
# Of what comes before a first picture, gzip'd as the gateway does.
FIRST_LOAD_BYTES = 80_000
IMPORT = re.compile(r"""^\s*import\s[^"']*?["']([^"']+)["'];""", re.MULTILINE)


def imported(path: Path) -> set[Path]:
    """All modules that come with one; not those that are loaded later."""
    found = {path}
    for name in IMPORT.findall(path.read_text()):
        found |= imported((path.parent / name).resolve())
    return found


def at(url: str) -> Path:
    return STATIC / url.removeprefix("/static/")


def test_the_first_load_is_small():
    linked = [at(url) for url in re.findall(r'(?:href|src)="(/static/[^"]+)"', INDEX)]
    files = {STATIC / "index.html", *linked, *imported(STATIC / "app.js")}
    assert sum(len(gzip.compress(path.read_bytes(), 6)) for path in files) <= FIRST_LOAD_BYTES


def test_modules_of_the_first_load_are_asked_for_at_once():
    preloaded = re.findall(r'rel="modulepreload" href="([^"]+)"', INDEX)
    assert {at(url) for url in preloaded} | {STATIC / "app.js"} == imported(STATIC / "app.js")


@pytest.mark.parametrize("folder", [VENDOR, ROOT / "tests/gateway/vendor"])
def test_what_is_shipped_of_others_is_what_they_published(folder):
    sums = dict(
        reversed(line.split("  "))
        for line in (folder / "SHA256SUMS").read_text().splitlines()
        if not line.startswith("#")
    )
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "SHA256SUMS"}
    assert sums == {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
    code = [name for name in files if not name.startswith("LICENSE")]
    assert code
    assert all((folder / name).stat().st_size > 200 for name in files)


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(STATIC)))
def test_no_file_needs_another_server_or_an_exception_of_the_policy(path):
    text = path.read_text()
    assert set(re.findall(r"https?://[^\s\"'`<>)]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\beval\(|new Function|innerHTML|dangerouslySet|document\.write", text)
    # An attribute; `style=${{…}}` sets properties, which the policy lets be.
    assert not re.search(r"""\sstyle=["']""", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style\b|\son\w+=[\"']", text)


def test_every_view_can_be_reached():
    app = (STATIC / "app.js").read_text()
    views = {f"./views/{path.name}" for path in (STATIC / "views").iterdir()}
    assert views == set(re.findall(r"\./views/\w+\.js", app))


def test_every_file_is_in_the_package():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = data["tool"]["setuptools"]["package-data"]["agent.gateway"]
    packed = {path for pattern in patterns for path in (ROOT / "agent/gateway").glob(pattern)}
    assert {path for path in STATIC.rglob("*") if path.is_file()} <= packed


def test_a_page_whose_files_do_not_come_says_why():
    """Below a path of a proxy nothing of the root is this gateway's: the style hides the words."""
    assert '<p class="unloaded">If this stays, the files of this page did not come' in INDEX
    assert ".unloaded { display: none; }" in (STATIC / "style.css").read_text()


def test_no_group_is_copied_for_each_of_its_members():
    """With 19,000 rooms on a floor that took a browser 3.7 s of every second."""
    copies = re.compile(r"\.set\([^;\n]*\[\.\.\.\(?\w+\.get\(")
    assert copies.search("floors.set(floor, [...(floors.get(floor) ?? []), room])")
    for path in OURS:
        assert copies.search(path.read_text()) is None, path.name
