"""Facts of a host, read in one round trip without changing anything."""

from fleet.inspect.facts.facts import Facts
from fleet.inspect.facts.gather import gather

__all__ = ["Facts", "gather"]
