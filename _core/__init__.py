"""Sanderling's hot path: data structures and arithmetic in Cython, without I/O, clocks or config.

`BUILD` is "release" or "debug", as compiled.
"""

from _core._build import BUILD

__all__ = ["BUILD"]
