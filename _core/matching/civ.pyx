"""Cluster index vectors: bit i stands for cluster i of the overlay (OctopiA, section IV-C).

The paper's three contexts are one class; they differ in the bits that may be set:

- **publication**, `Civ(width)`: carried by a notification, the clusters still to be reached. The
  broker that serves a cluster clears its bit.
- **advertisement**, `Civ.advertisement(width, own)`: at the host broker of a publisher, the target
  clusters except its own. The paper marks the host by its own cluster's bit; here that index is
  stored separately and its bit cannot be set, as it is never forwarded to.
- **subscription**, `Civ.subscription(width, own)`: at a secondary broker, only the secondary
  cluster bit: "the host of this advertisement knows that this cluster wants it".

`set` and `clear` return whether they changed the bit: a broker informs the host when `set` changed
the secondary cluster bit, and serves a cluster when `clear` changed its bit.

A vector is mutable, so it has no hash. Messages hold `to_bytes()`, never a shared vector.
"""


cdef void civ_write(const CivBits *c, uint8_t *data) noexcept nogil:
    cdef uint32_t i
    for i in range(civ_bytes(c)):
        data[i] = <uint8_t>(c.words[i >> 3] >> (8 * (i & 7)))


cdef bint civ_read(CivBits *c, const uint8_t *data) noexcept nogil:
    cdef uint32_t count = civ_bytes(c)
    cdef uint32_t i
    if c.width & 7 and data[count - 1] >> (c.width & 7):
        return False
    for i in range(civ_words(c)):
        c.words[i] = 0
    for i in range(count):
        c.words[i >> 3] |= (<uint64_t>data[i]) << (8 * (i & 7))
    return True


cdef class Civ:
    """A set of clusters from 0 to `width` − 1; 1 ≤ width ≤ 1,024.

    ValueError for another width, IndexError for a cluster out of range.
    """

    def __cinit__(self, width, clusters=()):
        if isinstance(width, bool) or not isinstance(width, int):
            raise TypeError(f"the width of a vector is an int, not {type(width).__name__}")
        if not 1 <= width <= CIV_MOST:
            raise ValueError(f"a vector has 1 to {CIV_MOST:,} clusters, not {width:,}")
        civ_init(&self.bits, width)
        self.own = -1
        self.only = -1
        for cluster in clusters:
            civ_set(&self.bits, self.check(cluster))

    @staticmethod
    def advertisement(width, own):
        """An empty vector of an advertisement in cluster `own`, whose bit cannot be set."""
        cdef Civ civ = Civ(width)
        civ.own = civ.check(own)
        return civ

    @staticmethod
    def subscription(width, own):
        """The vector of a secondary broker in cluster `own`, the only bit that can be set."""
        cdef Civ civ = Civ(width)
        civ.only = civ.check(own)
        return civ

    @staticmethod
    def from_bytes(width, bytes data not None):
        """The inverse of `to_bytes`. ValueError for a wrong length, or a bit past the width."""
        cdef Civ civ = Civ(width)
        cdef uint32_t length = civ_bytes(&civ.bits)
        if len(data) != length:
            raise ValueError(f"a vector of {width:,} clusters takes {length} bytes, not {len(data)}")
        if not civ_read(&civ.bits, data):
            raise ValueError(f"a vector of {width:,} clusters has bits of others set")
        return civ

    def to_bytes(self):
        """The wire form: ceil(width / 8) bytes, cluster i is bit i % 8 of byte i // 8."""
        cdef uint8_t[CIV_MAX_BYTES] data
        civ_write(&self.bits, data)
        return data[:civ_bytes(&self.bits)]

    cdef Py_ssize_t check(self, object cluster) except -1:
        """The cluster as a number below the width."""
        if isinstance(cluster, bool) or not isinstance(cluster, int):
            raise TypeError(f"a cluster is an int, not {type(cluster).__name__}")
        if not 0 <= cluster < self.bits.width:
            raise IndexError(
                f"the clusters are numbered 0 to {self.bits.width - 1:,}: there is no {cluster:,}"
            )
        return cluster

    cdef int check_set(self, uint32_t cluster) except -1:
        if <int>cluster == self.own:
            raise ValueError(f"cluster {cluster} is the advertisement's own, never a target")
        if self.only >= 0 and <int>cluster != self.only:
            raise ValueError(
                f"a broker of cluster {self.only} keeps its own bit alone, not that of {cluster}"
            )
        return 0

    cdef int check_width(self, Civ other) except -1:
        if self.bits.width != other.bits.width:
            raise ValueError(
                f"vectors of {self.bits.width:,} and {other.bits.width:,} clusters do not go together"
            )
        return 0

    @property
    def width(self):
        return self.bits.width

    def set(self, cluster):
        """Add a cluster; whether it was absent. ValueError if the context forbids it. O(1)."""
        cdef uint32_t i = self.check(cluster)
        self.check_set(i)
        if civ_test(&self.bits, i):
            return False
        civ_set(&self.bits, i)
        return True

    def clear(self, cluster):
        """Remove a cluster; whether it was present. O(1)."""
        cdef uint32_t i = self.check(cluster)
        if not civ_test(&self.bits, i):
            return False
        civ_clear(&self.bits, i)
        return True

    def __contains__(self, cluster):
        return civ_test(&self.bits, self.check(cluster))

    def __iter__(self):
        """The clusters present now, ascending; later changes do not affect the iterator."""
        cdef list clusters = []
        cdef int32_t i = civ_next(&self.bits, 0)
        while i >= 0:
            clusters.append(i)
            i = civ_next(&self.bits, i + 1)
        return iter(clusters)

    def __len__(self):
        return civ_count(&self.bits)

    def __bool__(self):
        return civ_any(&self.bits)

    def copy(self):
        """A copy with the same bits, in the publication context."""
        cdef Civ civ = Civ.__new__(Civ, self.bits.width)
        civ.bits = self.bits
        return civ

    def union(self, Civ other not None):
        """A new vector, in the publication context. ValueError if the widths differ."""
        cdef Civ civ = self.copy()
        self.check_width(other)
        civ_unite(&civ.bits, &other.bits)
        return civ

    def difference(self, Civ other not None):
        """A new vector, in the publication context. ValueError if the widths differ."""
        cdef Civ civ = self.copy()
        self.check_width(other)
        civ_subtract(&civ.bits, &other.bits)
        return civ

    def __ior__(self, Civ other not None):
        cdef int32_t i
        self.check_width(other)
        if self.own >= 0 or self.only >= 0:
            i = civ_next(&other.bits, 0)
            while i >= 0:
                self.check_set(i)
                i = civ_next(&other.bits, i + 1)
        civ_unite(&self.bits, &other.bits)
        return self

    def __isub__(self, Civ other not None):
        self.check_width(other)
        civ_subtract(&self.bits, &other.bits)
        return self

    def __eq__(self, other):
        """Same width, same clusters; the context does not matter."""
        if not isinstance(other, Civ):
            return NotImplemented
        return civ_equal(&self.bits, &(<Civ>other).bits)

    def __hash__(self):
        raise TypeError("a Civ can be changed: take its to_bytes() as a key")

    def __reduce__(self):
        if self.own >= 0:
            return _restored, (self.bits.width, self.to_bytes(), self.own, -1)
        if self.only >= 0:
            return _restored, (self.bits.width, self.to_bytes(), -1, self.only)
        return Civ.from_bytes, (self.bits.width, self.to_bytes())

    def __repr__(self):
        return f"Civ({self.bits.width}, {list(self)})"


def _restored(width, data, int own, int only):
    """Unpickle a vector in one of the other contexts."""
    cdef Civ civ = Civ.from_bytes(width, data)
    civ.own = own
    civ.only = only
    return civ
