"""Opens a page in the user's browser, where there is one to be seen."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
# Of a build, or of somebody at another machine.
ELSEWHERE = ("CI", "SSH_CONNECTION", "SSH_TTY")


def browser(environment: Mapping[str, str] = os.environ) -> list[str] | None:
    """The command that opens a page for whoever sits here; None where nobody would see it."""
    if any(map(environment.get, ELSEWHERE)) or not any(map(environment.get, DISPLAYS)):
        return None
    named = environment.get("BROWSER", "").partition(os.pathsep)[0].replace("%s", "")
    command = shlex.split(named) or ["xdg-open"]
    return command if shutil.which(command[0], path=environment.get("PATH")) else None


def open_page(link: str) -> bool:
    """Open a link in the browser, if there is one; whether there is."""
    command = browser()
    if command is None:
        return False
    # Not Python's webbrowser: a text browser would take the terminal.
    nothing = subprocess.DEVNULL
    with suppress(OSError):
        subprocess.Popen(
            [*command, link], stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
        return True
    return False
