"""One image for all tests of this folder, built once."""

from __future__ import annotations

import pytest

from tests.image.pi import FLEET, Campus


@pytest.fixture(scope="session")
def campus() -> Campus:
    """A fleet of two Pis, and its image."""
    made = Campus(FLEET)
    made.build()
    return made
