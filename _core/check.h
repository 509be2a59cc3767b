/* CHECK(condition) guards every index into raw memory. Only the debug build (SANDERLING_CHECKS)
   evaluates it; there a false condition ends the process and names the line. */
#ifndef SANDERLING_CHECK_H
#define SANDERLING_CHECK_H

/* Asks for a cache line ahead of its use; any address is allowed, none is read. */
#define PREFETCH(place) __builtin_prefetch(place)

#ifdef SANDERLING_CHECKS
#include <stdio.h>
#include <stdlib.h>
#define SANDERLING_DEBUG_BUILD 1
#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)
#else
#define SANDERLING_DEBUG_BUILD 0
#define CHECK(condition) ((void)0)
#endif

#endif
