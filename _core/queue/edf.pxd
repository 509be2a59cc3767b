"""EDF queue: a stable binary heap of (key, sequence, item) with handles, used by every policy.

`Edf` is plain C: any Cython module may embed one and call the functions below without the GIL. One
thread at a time. `EdfQueue` is the thin Python class over it, holding references to Python objects.
"""

from libc.stdint cimport uint32_t, uint64_t

cdef struct EdfCell:          # an element of the heap
    double key                # the least is served first; never NaN
    uint64_t sequence         # order of arrival, which breaks ties
    uint32_t slot             # index of its item's slot

cdef struct EdfSlot:          # where an item stays while its cell moves; a handle names a slot
    void *item                # not owned, never NULL; NULL marks a free slot
    uint32_t position         # index of its cell in the heap; in a free slot, the next free slot
    uint32_t generation       # number of times the slot was used; makes old handles invalid

cdef struct Edf:              # owns both arrays; free with edf_free
    EdfCell *heap             # [capacity] the first `count` are the heap
    EdfSlot *slots            # [capacity]
    uint32_t count            # cells in use
    uint32_t capacity         # cells and slots allocated
    uint32_t fresh            # slots from this index on have never been used
    uint32_t free_slot        # head of the list of free slots, 0xFFFFFFFF if none
    uint64_t next_sequence

cdef void edf_init(Edf *queue) noexcept nogil

# Frees the arrays. The caller releases the items that are still queued, before.
cdef void edf_free(Edf *queue) noexcept nogil

# Adds an item and returns its handle (generation << 32 | slot), never 0. Returns 0, and leaves the
# queue unchanged, if memory or slots ran out. `key` must not be NaN. O(log n), a few steps on
# average.
cdef uint64_t edf_push(Edf *queue, double key, void *item) noexcept nogil

# Removes and returns the item with the least (key, sequence); NULL if empty. O(log n).
cdef void *edf_pop(Edf *queue) noexcept nogil

# Removes and returns the item of a handle; NULL if the handle is stale or unknown. O(log n).
cdef void *edf_remove(Edf *queue, uint64_t handle) noexcept nogil

# Changes an item's key and keeps its sequence; False if the handle is stale or unknown. O(log n).
cdef bint edf_rekey(Edf *queue, uint64_t handle, double key) noexcept nogil

# The item that edf_pop would return; its key is heap[0].key. The queue must not be empty. O(1).
cdef inline void *edf_head(const Edf *queue) noexcept nogil:
    return queue.slots[queue.heap[0].slot].item

# Changes the head's key and keeps its sequence. O(log n).
cdef void edf_rekey_head(Edf *queue, double key) noexcept nogil


cdef class EdfQueue:
    cdef Edf queue
    cdef object _collected    # never set: an object member makes Cython enable gc for the type
