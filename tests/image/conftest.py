"""One image for all tests of this folder, built once; the pasted page only if it was asked for."""

from __future__ import annotations

import pytest

from tests.image.pi import FLEET, Campus, wanted

# Skipped as a whole it would count as a file that could not run (`--must-run`).
collect_ignore = ["test_first_fleet.py"] if wanted() == "1" else []


@pytest.fixture(scope="session")
def campus() -> Campus:
    """A fleet of two Pis, and its image."""
    made = Campus(FLEET)
    made.build()
    return made
