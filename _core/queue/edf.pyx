"""EDF queue: a stable binary heap of (key, sequence, item) with handles, used by every policy.

Ordered by deadline it is the paper's EDFQ; FIFO, SPR and T-EDFQ are the same queue under other keys
(`_core.queue.policy`). Equal keys leave in order of arrival.

Measured: a 4-ary heap is not faster. Two things help: choosing the smaller child without a branch
(with random keys every second one is mispredicted), and sinking straight to a leaf before rising
(the last cell nearly always belongs near the bottom). Cells hold a slot number instead of the item,
so a moving cell updates only `slots[...].position`, a store that nothing depends on. Prefetching
the grandchildren saves a tenth at 10,000 entries. A separate array of positions does not help.
"""

from cpython.object cimport PyObject, PyTypeObject, inquiry, traverseproc
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport isnan
from libc.stdlib cimport free, malloc, realloc

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil
    void PREFETCH(const void *place) noexcept nogil

cdef enum:
    NO_SLOT = 0xFFFFFFFF
    LAST_GENERATION = 0xFFFFFFFF
    FIRST_CAPACITY = 16
    MAX_CAPACITY = 0x40000000


cdef inline uint32_t _before(const EdfCell *a, const EdfCell *b) noexcept nogil:
    """1 if `a` leaves before `b`, else 0; written without a branch."""
    # `<=` and not `==`, which on x86 costs an extra test for NaN.
    return (a.key < b.key) | ((a.key <= b.key) & (a.sequence < b.sequence))


cdef inline void _put(Edf *queue, uint32_t position, EdfCell cell) noexcept nogil:
    CHECK(position < queue.count)
    CHECK(cell.slot < queue.fresh)
    queue.heap[position] = cell
    queue.slots[cell.slot].position = position


cdef inline void _rise(Edf *queue, uint32_t position, EdfCell cell) noexcept nogil:
    """Place `cell` at the hole `position` or above it."""
    cdef uint32_t parent
    while position > 0:
        parent = (position - 1) >> 1
        if not _before(&cell, &queue.heap[parent]):
            break
        _put(queue, position, queue.heap[parent])
        position = parent
    _put(queue, position, cell)


cdef inline void _sink(Edf *queue, uint32_t position, EdfCell cell) noexcept nogil:
    """Place `cell` anywhere in the branch under the hole `position`, or above it."""
    cdef uint32_t child = 2 * position + 1
    cdef uint32_t count = queue.count
    while child + 1 < count:
        PREFETCH(&queue.heap[2 * child + 1])  # four grandchildren, which may lie on two lines
        PREFETCH(&queue.heap[2 * child + 4])
        child += _before(&queue.heap[child + 1], &queue.heap[child])
        _put(queue, position, queue.heap[child])
        position = child
        child = 2 * position + 1
    if child < count:
        _put(queue, position, queue.heap[child])
        position = child
    _rise(queue, position, cell)


cdef void edf_init(Edf *queue) noexcept nogil:
    queue.heap = NULL
    queue.slots = NULL
    queue.count = 0
    queue.capacity = 0
    queue.fresh = 0
    queue.free_slot = NO_SLOT
    queue.next_sequence = 0


cdef void edf_free(Edf *queue) noexcept nogil:
    free(queue.heap)
    free(queue.slots)
    edf_init(queue)


cdef bint _grow(Edf *queue) noexcept nogil:
    cdef uint32_t capacity = queue.capacity * 2 if queue.capacity else FIRST_CAPACITY
    cdef void *memory
    if capacity > MAX_CAPACITY:
        return False
    memory = realloc(queue.slots, <size_t>capacity * sizeof(EdfSlot))
    if memory == NULL:
        return False
    queue.slots = <EdfSlot *>memory
    memory = realloc(queue.heap, <size_t>capacity * sizeof(EdfCell))
    if memory == NULL:
        return False  # the larger slots do no harm: `capacity` still tells the smaller size
    queue.heap = <EdfCell *>memory
    queue.capacity = capacity
    return True


cdef uint64_t edf_push(Edf *queue, double key, void *item) noexcept nogil:
    cdef uint32_t slot = queue.free_slot
    cdef EdfCell cell
    if slot != NO_SLOT:
        CHECK(slot < queue.fresh)
        queue.free_slot = queue.slots[slot].position
    else:
        if queue.fresh == queue.capacity and not _grow(queue):
            return 0
        slot = queue.fresh
        queue.fresh += 1
        queue.slots[slot].generation = 0
    queue.slots[slot].item = item
    queue.slots[slot].generation += 1
    cell.key = key
    cell.sequence = queue.next_sequence
    cell.slot = slot
    queue.next_sequence += 1
    queue.count += 1
    _rise(queue, queue.count - 1, cell)
    return (<uint64_t>queue.slots[slot].generation << 32) | slot


cdef inline void *_release(Edf *queue, uint32_t slot) noexcept nogil:
    """Free a slot whose cell is already out of the heap; its item."""
    CHECK(slot < queue.fresh)
    cdef void *item = queue.slots[slot].item
    queue.slots[slot].item = NULL
    if queue.slots[slot].generation != LAST_GENERATION:  # else retired: no handle is reused
        queue.slots[slot].position = queue.free_slot
        queue.free_slot = slot
    return item


cdef void *edf_pop(Edf *queue) noexcept nogil:
    cdef uint32_t slot
    if queue.count == 0:
        return NULL
    slot = queue.heap[0].slot
    queue.count -= 1
    if queue.count > 0:
        _sink(queue, 0, queue.heap[queue.count])
    return _release(queue, slot)


cdef inline bint _alive(Edf *queue, uint64_t handle) noexcept nogil:
    cdef uint32_t slot = <uint32_t>handle
    return (
        slot < queue.fresh
        and queue.slots[slot].generation == <uint32_t>(handle >> 32)
        and queue.slots[slot].item != NULL
    )


cdef void *edf_remove(Edf *queue, uint64_t handle) noexcept nogil:
    cdef uint32_t slot = <uint32_t>handle
    cdef uint32_t position
    if not _alive(queue, handle):
        return NULL
    position = queue.slots[slot].position
    CHECK(position < queue.count)
    queue.count -= 1
    if position < queue.count:
        _sink(queue, position, queue.heap[queue.count])
    return _release(queue, slot)


cdef bint edf_rekey(Edf *queue, uint64_t handle, double key) noexcept nogil:
    cdef uint32_t slot = <uint32_t>handle
    cdef EdfCell cell
    if not _alive(queue, handle):
        return False
    CHECK(queue.slots[slot].position < queue.count)
    cell = queue.heap[queue.slots[slot].position]
    cell.key = key
    _sink(queue, queue.slots[slot].position, cell)
    return True


cdef void edf_rekey_head(Edf *queue, double key) noexcept nogil:
    cdef EdfCell cell
    CHECK(queue.count > 0)
    cell = queue.heap[0]
    cell.key = key
    _sink(queue, 0, cell)


cdef class EdfQueue:
    """Priority queue of Python objects by float key; the least key leaves first, ties by arrival.

    Every entry has a handle, an int that stays valid until the entry leaves; stale handles are
    always detected. Not thread-safe.
    """

    def __cinit__(self):
        edf_init(&self.queue)

    def __dealloc__(self):
        _clear(self)
        edf_free(&self.queue)

    def __len__(self):
        return self.queue.count

    def push(self, double key, object item):
        """Add `item` under `key` (for deadlines: seconds on the monotonic clock); its handle.

        ValueError for NaN, MemoryError if full. O(log n), O(1) on average for random keys.
        """
        cdef uint64_t handle
        if isnan(key):
            raise ValueError("key is NaN")
        handle = edf_push(&self.queue, key, <void *>item)
        if handle == 0:
            raise MemoryError
        Py_INCREF(item)
        return handle

    def pop(self):
        """Remove and return the item with the least key. IndexError if empty. O(log n)."""
        cdef void *item = edf_pop(&self.queue)
        if item == NULL:
            raise IndexError("pop from an empty queue")
        return _given(item)

    def peek(self):
        """The item that pop() would return. IndexError if empty. O(1)."""
        if self.queue.count == 0:
            raise IndexError("peek into an empty queue")
        return <object>self.queue.slots[self.queue.heap[0].slot].item

    def peek_key(self):
        """The least key. IndexError if empty. O(1)."""
        if self.queue.count == 0:
            raise IndexError("peek into an empty queue")
        return self.queue.heap[0].key

    def remove(self, handle):
        """Remove and return the item of `handle`. KeyError if it has left already. O(log n)."""
        cdef void *item = edf_remove(&self.queue, _handle(handle))
        if item == NULL:
            raise KeyError(handle)
        return _given(item)

    def rekey(self, handle, double key):
        """Move an entry to another key; among equal keys it keeps its order of arrival.

        KeyError if the entry has left already, ValueError for NaN. O(log n).
        """
        if isnan(key):
            raise ValueError("key is NaN")
        if not edf_rekey(&self.queue, _handle(handle), key):
            raise KeyError(handle)

    def clear(self):
        """Remove all entries; their handles become stale. O(n)."""
        _clear(self)


cdef inline object _given(void *item):
    """The item as a Python object, its reference passing from the queue to the caller."""
    cdef object taken = <object>item
    Py_DECREF(taken)
    return taken


cdef uint64_t _handle(object handle) except? 0:
    """A handle from Python; an impossible one becomes 0, which no entry has."""
    if not isinstance(handle, int):
        raise TypeError(f"handle must be an int, not {type(handle).__name__}")
    if 0 < handle <= 0xFFFFFFFFFFFFFFFF:
        return handle
    return 0


cdef void _clear(EdfQueue self) noexcept:
    # Dropping a reference may run any code, even code that uses this queue: empty it first.
    cdef uint32_t count = self.queue.count
    cdef uint32_t i
    cdef void **items = <void **>malloc(count * sizeof(void *))
    if items == NULL:
        while self.queue.count > 0:
            _drop(edf_pop(&self.queue))
        return
    for i in range(count):
        self.queue.count -= 1
        items[i] = _release(&self.queue, self.queue.heap[self.queue.count].slot)
    for i in range(count):
        _drop(items[i])
    free(items)


cdef inline void _drop(void *item) noexcept:
    Py_DECREF(<object>item)


# Cython writes the garbage collector's functions for object members only, and would neither see nor
# free a cycle through the slots. These two take their place.

# (visit functions of the collector set no exception, whatever they return)
ctypedef int (*Visit)(PyObject *item, void *arg) noexcept
ctypedef int (*Traverse)(PyObject *self, Visit visit, void *arg) noexcept

cdef Traverse _traverse_members


cdef int _traverse(PyObject *self, Visit visit, void *arg) noexcept:
    cdef Edf *queue = &(<EdfQueue>self).queue
    cdef uint32_t i
    cdef int result = _traverse_members(self, visit, arg)
    if result != 0:
        return result
    for i in range(queue.count):
        result = visit(<PyObject *>queue.slots[queue.heap[i].slot].item, arg)
        if result != 0:
            return result
    return 0


cdef int _break_cycles(PyObject *self) noexcept:
    _clear(<EdfQueue>self)
    return 0


_traverse_members = <Traverse>(<PyTypeObject *>EdfQueue).tp_traverse
(<PyTypeObject *>EdfQueue).tp_traverse = <traverseproc>_traverse
(<PyTypeObject *>EdfQueue).tp_clear = <inquiry>_break_cycles
