"""How this copy of `_core` was compiled."""

cdef extern from "check.h":
    const int SANDERLING_DEBUG_BUILD

BUILD = "debug" if SANDERLING_DEBUG_BUILD else "release"
