"""What drivers are given: paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from sensors.base import Options, path_in


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("tty", "{}/etc/edge/tty"),
        ("/dev/tty", "/dev/tty"),
        ("../../serial/tty", "{}/serial/tty"),
        ("..//tty", "{}/etc/tty"),
        ("by-id/../tty", "{}/etc/edge/by-id/../tty"),  # by-id may be a symbolic link
    ],
)
def test_a_path_is_taken_from_the_folder_of_the_file(tmp_path: Path, path: str, found: str) -> None:
    folder = tmp_path / "etc" / "edge"
    folder.mkdir(parents=True)
    assert path_in(folder, path) == found.format(tmp_path)
    assert Options("x", {"port": path}, str(folder)).path("port") == found.format(tmp_path)


def test_above_a_symbolic_link_is_above_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "opt" / "release").mkdir(parents=True)
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "opt" / "release")
    assert path_in(link, "../tty") == str(tmp_path / "opt" / "tty")
    assert path_in(link, "tty") == str(link / "tty")
