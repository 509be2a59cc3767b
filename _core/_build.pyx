"""Build configuration of this copy of `_core`."""

cdef extern from "check.h":
    const int SANDERLING_DEBUG_BUILD

BUILD = "debug" if SANDERLING_DEBUG_BUILD else "release"
