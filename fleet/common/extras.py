"""Optional libraries that only some commands need, and the one command that installs them."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

TARGET: Final = "pipeline"
WHAT: Final = "Spark, a Java for it, pyarrow, and what plans and draws"
# Of locks/pipeline.txt; `make pipeline` says the same.
SIZE: Final = "640 MB to download"


def missing(*libraries: str) -> list[str]:
    """Those of these top-level modules that cannot be imported here."""
    return [library for library in libraries if find_spec(library) is None]


def checkout() -> Path | None:
    """The checkout in whose `.venv` this runs; None elsewhere."""
    root = Path(__file__).resolve().parents[2]
    is_its_own = Path(sys.prefix).resolve() == (root / ".venv").resolve()
    return root if is_its_own and (root / "locks" / f"{TARGET}.txt").is_file() else None


def remedy() -> str:
    """The command that installs what is missing, as a clause."""
    if checkout() is None:
        return "pip install 'sanderling[pipeline,placement]'"
    return f"`make {TARGET}` installs {WHAT} ({SIZE})"


def lacking(*libraries: str) -> str:
    """One line that says which of these are missing, and what to do; empty if none is."""
    names = missing(*libraries)
    if not names:
        return ""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} missing; {remedy()}"
