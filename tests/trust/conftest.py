"""A fleet, and taps of its masters' sockets, that are gone after the test."""

import pytest

from tests.trust.rig import IADS, Fleet
from tests.trust.tap import Tap


@pytest.fixture
def fleet(tmp_path):
    made = []

    def fleet(**options):
        made.append(Fleet(tmp_path, **options))
        return made[-1]

    yield fleet
    for each in made:
        each.stop()


@pytest.fixture
def tapped(fleet):
    """Starts a fleet whose masters reach each other through taps."""
    taps = []

    def tapped(**options):
        made = fleet(**options)
        for iad in IADS:
            taps.append(Tap(made.sockets[iad]["public"]))
            made.via[iad] = taps[-1].address
        made.start()
        return made, taps

    yield tapped
    for tap in taps:
        tap.close()
