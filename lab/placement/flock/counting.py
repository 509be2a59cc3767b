"""The clones' processor: it numbers its outputs, each made of one reading of its device."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

NAME: Final = "counting"
PACKAGE: Final = "sanderling_flock"
# The channel in which devices number their readings.
CHANNEL: Final = "reading"


def process(message: dict[str, Any], state: dict[str, Any]) -> list[dict[str, Any]]:
    """Number each reading; count what peers made."""
    if "peer" in message:
        state["heard"] = state.get("heard", 0) + 1
        return []
    state["n"] = state.get("n", 0) + 1
    return [{"n": state["n"], CHANNEL: message[CHANNEL], "heard": state.get("heard", 0)}]


def install(folder: Path) -> Path:
    """Write what makes `process` known as a processor of another package; returns the folder that
    is to be on PYTHONPATH."""
    info = folder / f"{PACKAGE}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[sanderling.processors]\n{NAME} = {__name__}:process\n"
    )
    return folder
