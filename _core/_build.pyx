"""Build configuration of this copy of `_core`."""

cdef extern from "check.h":
    const int SANDERLING_DEBUG_BUILD

cdef extern from *:
    """
    #ifdef __SANITIZE_ADDRESS__
    #define SANDERLING_SANITIZED_BUILD 1
    #else
    #define SANDERLING_SANITIZED_BUILD 0
    #endif
    """
    const int SANDERLING_SANITIZED_BUILD

BUILD = (
    "debug" if SANDERLING_DEBUG_BUILD else "sanitized" if SANDERLING_SANITIZED_BUILD else "release"
)
