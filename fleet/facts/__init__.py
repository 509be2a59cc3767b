"""What is on a host: read in one round trip, without changing anything."""

from fleet.facts.facts import Facts
from fleet.facts.gather import gather

__all__ = ["Facts", "gather"]
