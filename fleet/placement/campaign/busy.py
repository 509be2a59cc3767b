"""Processor of a campaign: a message takes the CPU time that the topic's parameter says."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

NAME: Final = "busy"
PACKAGE: Final = "sanderling_campaign"


def process(_message: dict[str, Any], _state: dict[str, Any], *, cpu_ms: float) -> None:
    """Keep a core busy until this thread has had `cpu_ms` of it."""
    end_s = time.thread_time() + cpu_ms / 1e3
    while time.thread_time() < end_s:
        pass


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
