"""Where packages come from is read of the host's apt, in both of its formats."""

from __future__ import annotations

import pytest

from fleet.release import apt_sources
from fleet.release.apt_sources import NoMirrorError, Source

DEB822 = """\
Types: deb
# of one day
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm

Types: deb
URIs: http://others.example/node
Suites: nodistro
Components: main
"""
LINES = """\
# deb http://no.example/debian bookworm main
deb [arch=amd64 signed-by=/a/b] http://mirror.example/debian bookworm main contrib # yes
deb-src http://mirror.example/debian bookworm main
deb http://security.example/debian-security bookworm-security main
"""
KEYRING = f"[signed-by={apt_sources.KEYRING}]"


@pytest.fixture
def apt(tmp_path):
    (tmp_path / "sources.list.d").mkdir()
    return tmp_path


def test_deb822(apt):
    (apt / "sources.list.d/debian.sources").write_text(DEB822)
    assert apt_sources.of_host(apt) == [
        Source("http://mirror.example/debian", "bookworm"),
        Source("http://mirror.example/debian", "bookworm-updates"),
        Source("http://security.example/debian-security", "bookworm-security"),
        Source("http://others.example/node", "nodistro"),
    ]


def test_one_line_style(apt):
    (apt / "sources.list").write_text(LINES)
    assert apt_sources.of_host(apt) == [
        Source("http://mirror.example/debian", "bookworm"),
        Source("http://security.example/debian-security", "bookworm-security"),
    ]


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_another_suite_comes_from_the_same_mirrors(suite):
    text = apt_sources.lines_for(suite, apt_sources.parse_deb822(DEB822), None)
    assert text.splitlines() == [
        f"deb {KEYRING} http://mirror.example/debian {suite} main non-free-firmware",
        f"deb {KEYRING} http://mirror.example/debian {suite}-updates main non-free-firmware",
        (
            f"deb {KEYRING} http://security.example/debian-security {suite}-security "
            "main non-free-firmware"
        ),
    ]


def test_a_host_without_updates_gets_none():
    text = apt_sources.lines_for("bookworm", apt_sources.parse_lines(LINES), None)
    assert "updates" not in text
    assert "bookworm-security" in text


def test_a_mirror_that_is_named_is_the_only_one():
    text = apt_sources.lines_for("bookworm", apt_sources.parse_deb822(DEB822), "file:/srv/debian")
    assert text == f"deb {KEYRING} file:/srv/debian bookworm main non-free-firmware\n"


def test_a_host_without_a_debian_mirror_is_told_what_to_do():
    with pytest.raises(NoMirrorError, match="--mirror"):
        apt_sources.lines_for("bookworm", [Source("http://others.example", "nodistro")], None)
