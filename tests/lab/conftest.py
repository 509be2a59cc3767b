"""Folders of their own, and a small fleet: as the tests of fleet have them."""

from tests.fleet.conftest import bed, own_folders

__all__ = ["bed", "own_folders"]
