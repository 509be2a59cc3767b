"""A page is opened only where somebody sees it."""

from pathlib import Path

import pytest

from fleet.terminal.browser import browser


@pytest.fixture
def path(tmp_path: Path) -> str:
    for name in ("xdg-open", "firefox"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("environment", "command"),
    [
        ({"DISPLAY": ":0"}, ["xdg-open"]),
        ({"WAYLAND_DISPLAY": "wayland-0"}, ["xdg-open"]),
        ({"BROWSER": "firefox"}, ["firefox"]),
        ({"BROWSER": "firefox --new-window %s:lynx"}, ["firefox", "--new-window"]),
        ({"BROWSER": "netscape"}, None),
        ({}, None),
        ({"DISPLAY": ":0", "CI": "true"}, None),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "::1 1 ::1 22"}, None),
        ({"BROWSER": "firefox", "SSH_TTY": "/dev/pts/1"}, None),
    ],
)
def test_which_browser_is_started(environment, command, path):
    assert browser({**environment, "PATH": path}) == command


def test_without_a_program_that_opens_it_there_is_none(tmp_path):
    assert browser({"DISPLAY": ":0", "PATH": str(tmp_path)}) is None
