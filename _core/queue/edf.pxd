"""EDF queue: a stable binary heap of (key, sequence, item) with handles, used by every policy.

`Edf` is plain C: any Cython module may embed one and call the functions below without the GIL. One
thread at a time. `EdfQueue` is the thin Python class over it, holding references to Python objects.
"""

from libc.stdint cimport uint32_t, uint64_t

cdef struct EdfCell:          # a place in the heap
    double key                # least first; never NaN
    uint64_t sequence         # order of arrival: decides between equal keys
    uint32_t slot             # where its item is

cdef struct EdfSlot:          # an item's fixed place, what a handle names
    void *item                # opaque here, never NULL; NULL marks a free slot
    uint32_t position         # its cell in the heap; in a free slot the next free slot
    uint32_t generation       # how often the slot was handed out, 0 before the first time

cdef struct Edf:
    EdfCell *heap
    EdfSlot *slots
    uint32_t count            # cells in use
    uint32_t capacity         # cells and slots allocated
    uint32_t fresh            # slots below this index have been used at least once
    uint32_t free_slot        # head of the list of free slots, 0xFFFFFFFF if none
    uint64_t next_sequence

cdef void edf_init(Edf *queue) noexcept nogil

# Releases the memory; items are the caller's to release first.
cdef void edf_free(Edf *queue) noexcept nogil

# Returns the handle (generation << 32 | slot), never 0; 0 if memory or slots ran out, the queue
# unchanged. `key` must not be NaN. O(log n), a few steps on average.
cdef uint64_t edf_push(Edf *queue, double key, void *item) noexcept nogil

# The item with the least (key, sequence), taken out; NULL if empty. O(log n).
cdef void *edf_pop(Edf *queue) noexcept nogil

# The item of a handle, taken out; NULL if the handle is stale or unknown. O(log n).
cdef void *edf_remove(Edf *queue, uint64_t handle) noexcept nogil

# Moves an item to a new key, its sequence kept; 0 if the handle is stale or unknown. O(log n).
cdef bint edf_rekey(Edf *queue, uint64_t handle, double key) noexcept nogil

# The first item of a queue that is not empty; `heap[0].key` is its key. O(1).
cdef inline void *edf_head(const Edf *queue) noexcept nogil:
    return queue.slots[queue.heap[0].slot].item

# Moves that item to a new key, its sequence kept. O(log n).
cdef void edf_rekey_head(Edf *queue, double key) noexcept nogil


cdef class EdfQueue:
    cdef Edf queue
    cdef object _collected    # never set: only an object member gives the type its place in the gc
