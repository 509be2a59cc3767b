"""Entry point of the archive: performs the request, or undoes a switch if started without one.

Modules are imported only when needed: a small Pi compiles them each time.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from fleet.on_host.places import UNDO


def start(request: dict[str, Any] | None, archive: bytes) -> None:
    """Perform the request and print its outcome. `archive` is the path of this archive."""
    asked = by_itself(os.path.abspath(sys.argv[0]), sys.argv[1:]) if request is None else request
    if asked["do"] == "facts":
        from fleet.on_host.facts import answer

        answer(asked)
    elif asked["do"] == "diagnosis":
        from fleet.on_host.diagnosis import answer

        answer(asked)
    elif asked["do"] == "logs":
        from fleet.on_host.logs import answer

        answer(asked)
    else:
        from fleet.on_host.change import main

        main(asked, archive)


def by_itself(path: str, words: list[str]) -> dict[str, Any]:
    """The request when the archive that a switch left on the host is run by the timer, or, with the
    argument `boot`, at boot."""
    if not path.endswith(UNDO):
        raise SystemExit(f"this is started by a timer, as {UNDO}")
    return {
        "do": "boot" if words == ["boot"] else "expire",
        "root": path.removesuffix(UNDO),
    }
