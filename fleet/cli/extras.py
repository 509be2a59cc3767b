"""Check for optional dependencies that only some commands need."""

from __future__ import annotations

from importlib.util import find_spec

from fleet.common import exits


def without(*libraries: str) -> int | None:
    """The exit status, after one line, if a library is not there: said before the run, not at the
    picture at its end."""
    for library in libraries:
        if find_spec(library) is None:
            how = "in a checkout, run .venv/bin/pip install -e '.[lab]' (make test has it too)"
            return exits.fail(f"{library} is missing; {how}", exits.USAGE)
    return None
