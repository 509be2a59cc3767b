"""Predicted latency of co-located processors: a queueing model, and trees for what it leaves over.

**A thread a topic** (the k-TCP paper's broker). While n topics are active each runs at the speed
min(1, cores / n) / (1 + interference (n - 1)). How many of the others are active is taken as
Poisson-binomial with their utilisations, which depend on their speeds in turn: a fixed point.
**One queue by deadline**: a worker a core, all messages of all topics.

The wait then has two parts, each the tail of a Brownian motion with drift. Periodic publishers make
a bridge over a period (n D/D/1, Roberts and Virtamo): w (w + free) = (n - 1) s² ln(1/q) / 2. Chance
makes a walk over the measured window, w (w + free) = variance ln(1/q) / 2; its form tends to M/D/1
below the load 1, and to a fluid that grows for the whole window above it.

With one queue the part that differs between topics is who goes first. In heavy traffic all
deadlines are overrun by the same time, so the wait of a topic is max(0, objective + overrun), and
the load-weighted mean of the waits is that of any order; nor is it less than without the topics
that are looser.

Boosted trees then add to the logarithm of the latency what the formulas leave over.
"""

from libc.math cimport INFINITY, exp, fabs, isfinite, log, pow, sqrt
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    ROUNDS = 60                   # of the fixed point, at most
    MAX_NODES = 1 << 20
    TURNS = 20                    # of Newton's method, at most

cdef double CLOSE = 1e-4          # the fixed point's largest remaining step in utilisation
cdef double STRIDE = 1.5          # its steps are longer by this: they grow from below, and slowly
cdef double MAX_LOG = 20.0        # a tree's value that is larger is none: e^20 s are 15 years


cdef struct Shares:               # what a topic gets of the cores
    double service_s              # its service time there
    double utilisation            # load over capacity, above 1 if it is overloaded
    double variance               # of its speed, over its squared mean


cdef inline double _root(double free_s, double variance, double certainty) noexcept nogil:
    """The w >= 0 with w (w + free_s) = variance · certainty / 2."""
    return 0.5 * (sqrt(free_s * free_s + 2.0 * variance * certainty) - free_s)


cdef void _share(
    const Parameters *p, const Load **load, int count, Shares *shares
) noexcept nogil:
    """The fixed point of the topics' utilisations and speeds, with a thread a topic."""
    cdef double[MAX_TOPICS + 1] speed
    cdef double[MAX_TOPICS + 1] chance
    cdef double[MAX_TOPICS] busy
    cdef double mean
    cdef double square
    cdef double moved
    cdef double u
    cdef int i
    cdef int j
    cdef int n
    cdef int others
    cdef int turn
    for n in range(count):
        speed[n] = min(1.0, p.cores / (n + 1.0)) / (1.0 + p.interference * n)
    for i in range(count):
        busy[i] = min(1.0, load[i].rate * load[i].service_s * p.service_scale)
    for turn in range(ROUNDS):
        moved = 0.0
        for i in range(count):
            chance[0] = 1.0
            others = 0
            for j in range(count):
                if j == i:
                    continue
                u = busy[j]
                others += 1
                chance[others] = chance[others - 1] * u
                for n in range(others - 1, 0, -1):
                    chance[n] += u * (chance[n - 1] - chance[n])
                chance[0] *= 1.0 - u
            mean = 0.0
            square = 0.0
            for n in range(others + 1):
                mean += chance[n] * speed[n]
                square += chance[n] * speed[n] * speed[n]
            shares[i].service_s = load[i].service_s * p.service_scale / mean
            shares[i].utilisation = load[i].rate * shares[i].service_s
            shares[i].variance = max(square / (mean * mean) - 1.0, 0.0)
            u = min(1.0, shares[i].utilisation)
            moved = max(moved, fabs(u - busy[i]))
            busy[i] = min(1.0, busy[i] + STRIDE * (u - busy[i]))
        if moved < CLOSE:
            return


cdef double _wait(
    const Parameters *p, double publishers, double rate, double service_s, double utilisation,
    double variance, double waits, double quantile
) noexcept nogil:
    """The quantile (s) of the wait before a server that serves `rate` messages a second.

    `variance` is that of a service time over its squared mean, `waits` the share of the messages
    that wait at all.
    """
    cdef double certainty = log(max(waits / (1.0 - quantile), 1.0))
    cdef double free_share = 1.0 - utilisation
    cdef double walk = rate * service_s * service_s * variance * p.window_s
    cdef double bridge_s = 0.0
    if publishers == 0.0:
        walk += rate * service_s * service_s * p.window_s
    elif publishers > 1.0:
        bridge_s = _root(
            max(free_share, 0.0) * publishers / rate,
            (publishers - 1.0) * service_s * service_s,
            certainty,
        )
    return bridge_s + _root(free_share * p.window_s, walk, certainty)


cdef void _own_threads(
    const Parameters *p, const Load **load, int count, Shares *shares, double *latency_s
) noexcept nogil:
    cdef double variance
    cdef int i
    _share(p, load, count, shares)
    for i in range(count):
        variance = p.service_variance + p.speed_variance * shares[i].variance
        latency_s[i] = p.overhead_s + shares[i].service_s
        if load[i].rate > 0.0:
            latency_s[i] += _wait(
                p, load[i].publishers, load[i].rate, shares[i].service_s, shares[i].utilisation,
                variance, min(shares[i].utilisation, 1.0), load[i].quantile,
            )


cdef double _overrun(
    const Load **load, int count, const double *share, double wait_s
) noexcept nogil:
    """The f with Σ share · max(0, objective + f) = Σ share · wait_s."""
    cdef double[MAX_TOPICS] objective
    cdef double[MAX_TOPICS] weight
    cdef double total = 0.0
    cdef double sum_weight = 0.0
    cdef double sum_objective = 0.0
    cdef double f
    cdef int i
    cdef int j
    for i in range(count):  # in descending order of the objectives
        total += share[i] * wait_s
        j = i
        while j > 0 and objective[j - 1] < load[i].objective_s:
            objective[j] = objective[j - 1]
            weight[j] = weight[j - 1]
            j -= 1
        objective[j] = load[i].objective_s
        weight[j] = share[i]
    f = -objective[0]
    for i in range(count):
        sum_weight += weight[i]
        sum_objective += weight[i] * objective[i]
        if sum_weight > 0.0:
            f = (total - sum_objective) / sum_weight
            if i + 1 < count and objective[i + 1] + f <= 0.0:
                break
    return f


cdef double _bridges(
    const double *variance, const double *free_s, int count, double half
) noexcept nogil:
    """The w with w = Σ half · variance / (w + free_s): bridges of different periods, together."""
    cdef double total = 0.0
    cdef double w
    cdef double sum
    cdef double slope
    cdef double part
    cdef int turn
    cdef int i
    for i in range(count):
        total += variance[i]
    w = sqrt(half * total)
    if w == 0.0:
        return 0.0
    for turn in range(TURNS):  # Newton: after one step from below, so that nothing can overshoot
        sum = 0.0
        slope = 1.0
        for i in range(count):
            part = half * variance[i] / (w + free_s[i])
            sum += part
            slope += part / (w + free_s[i])
        part = (w - sum) / slope
        w = max(w - part, 0.25 * w)
        if fabs(part) < 1e-10 * w:
            break
    return w


cdef double _pooled_wait(
    const Parameters *p, const Load **load, int count, double latest_s
) noexcept nogil:
    """The wait (s) before the workers, in order of arrival, when only the topics with objectives
    up to `latest_s` are there."""
    cdef double[MAX_TOPICS] variance
    cdef double[MAX_TOPICS] free_s
    cdef double slow = 1.0 + p.interference * (p.cores - 1.0)
    cdef double utilisation = 0.0
    cdef double publishers = 0.0
    cdef double walk = 0.0
    cdef double quantile = 0.5
    cdef double certainty
    cdef double chance
    cdef double free_share
    cdef double step
    cdef int bridges = 0
    cdef int i
    for i in range(count):
        if load[i].objective_s > latest_s or load[i].rate == 0.0:
            continue
        step = load[i].service_s * p.service_scale * slow / p.cores
        utilisation += load[i].rate * step
        quantile = max(quantile, load[i].quantile)
        walk += load[i].rate * step * step * (p.service_variance + (load[i].publishers == 0.0))
        if load[i].publishers > 0.0:
            publishers += load[i].publishers
            variance[bridges] = load[i].publishers * step * step
            free_s[bridges] = load[i].publishers / load[i].rate
            bridges += 1
    # Sakasegawa's share of those that wait; it takes a number of cores that is not whole.
    chance = pow(min(utilisation, 1.0), sqrt(2.0 * (p.cores + 1.0)) - 1.0)
    certainty = log(max(chance / (1.0 - quantile), 1.0))
    free_share = 1.0 - utilisation
    if publishers <= 1.0:
        bridges = 0  # a single periodic publisher never waits for itself
    for i in range(bridges):
        free_s[i] *= max(free_share, 0.0)
        variance[i] *= (publishers - 1.0) / publishers
    return (
        _root(free_share * p.window_s, walk * p.window_s, certainty)
        + _bridges(variance, free_s, bridges, 0.5 * certainty)
    )


cdef void _shared_queue(
    const Parameters *p, const Load **load, int count, Shares *shares, double *latency_s
) noexcept nogil:
    cdef double[MAX_TOPICS] share
    cdef double slow = 1.0 + p.interference * (p.cores - 1.0)
    cdef double work = 0.0        # in s of one idle core, a second
    cdef double tightest_s = INFINITY
    cdef double loosest_s = 0.0
    cdef double wait_s
    cdef double overrun_s
    cdef double busy
    cdef double own
    cdef int i
    for i in range(count):
        share[i] = load[i].rate * load[i].service_s * p.service_scale
        work += share[i]
        tightest_s = min(tightest_s, load[i].objective_s)
        loosest_s = max(loosest_s, load[i].objective_s)
    wait_s = _pooled_wait(p, load, count, loosest_s)
    busy = min(work * slow, p.cores)
    overrun_s = wait_s - loosest_s
    if tightest_s < loosest_s:
        overrun_s = _overrun(load, count, share, wait_s)
    for i in range(count):
        shares[i].service_s = load[i].service_s * p.service_scale
        shares[i].service_s *= 1.0 + p.interference * max(busy - 1.0, 0.0)
        shares[i].utilisation = work * slow / p.cores
        shares[i].variance = 0.0
        latency_s[i] = max(load[i].objective_s + overrun_s, 0.0)
        if load[i].objective_s < loosest_s:
            # Looser topics that go last take nothing from what tighter ones wait for each other.
            latency_s[i] = max(latency_s[i], _pooled_wait(p, load, count, load[i].objective_s))
        if p.serial and load[i].rate > 0.0:
            own = load[i].rate * shares[i].service_s
            latency_s[i] = max(latency_s[i], _wait(
                p, load[i].publishers, load[i].rate, shares[i].service_s, own,
                p.service_variance, min(own, 1.0), load[i].quantile,
            ))
        latency_s[i] += p.overhead_s + shares[i].service_s


cdef double _tree_sum(const Forest *f, const double *features) noexcept nogil:
    cdef double total = 0.0
    cdef const Node *node
    cdef int tree
    cdef int step
    for tree in range(f.trees):
        node = &f.nodes[f.roots[tree]]
        for step in range(f.depth):
            node = &f.nodes[node.left if features[node.feature] <= node.threshold else node.right]
        total += node.value
    return total


cdef void predict(
    const Parameters *p, const Forest *f, const Load **load, int count,
    double *latency_s, double *features
) noexcept nogil:
    cdef Shares[MAX_TOPICS] shares
    cdef double[FEATURES] row
    cdef double utilisation = 0.0
    cdef double work = 0.0
    cdef double rate = 0.0
    cdef double overloaded = 0.0
    cdef int i
    cdef int column
    cdef int width = FEATURES
    CHECK(0 < count)
    CHECK(count <= MAX_TOPICS)
    if p.shared:
        _shared_queue(p, load, count, shares, latency_s)
    else:
        _own_threads(p, load, count, shares, latency_s)
    if features == NULL and f.trees == 0:
        return
    for i in range(count):
        utilisation += min(shares[i].utilisation, 1.0)
        overloaded += shares[i].utilisation > 1.0
        work += load[i].rate * load[i].service_s
        rate += load[i].rate
    for i in range(count):
        row[0] = log(latency_s[i])
        row[1] = shares[i].utilisation
        row[2] = log(shares[i].service_s)
        row[3] = shares[i].service_s / load[i].service_s
        row[4] = utilisation - min(shares[i].utilisation, 1.0)
        row[5] = work
        row[6] = load[i].rate
        row[7] = rate - load[i].rate
        row[8] = overloaded
        row[9] = load[i].publishers
        latency_s[i] *= exp(_tree_sum(f, row))
        if features != NULL:
            for column in range(width):
                features[i * width + column] = row[column]


cdef int _check_load(const Load *load, object name) except -1:
    if not (isfinite(load.service_s) and load.service_s > 0.0):
        raise ValueError(f"{name}: service_s = {load.service_s} is not a time above 0")
    if not (isfinite(load.rate) and load.rate >= 0.0):
        raise ValueError(f"{name}: rate = {load.rate} is not 0 or above")
    if not (isfinite(load.publishers) and load.publishers >= 0.0):
        raise ValueError(f"{name}: publishers = {load.publishers} is not 0 or above")
    if not (isfinite(load.objective_s) and load.objective_s > 0.0):
        raise ValueError(f"{name}: objective_s = {load.objective_s} is not a time above 0")
    if not 0.0 < load.quantile < 1.0:
        raise ValueError(f"{name}: quantile = {load.quantile} is not between 0 and 1")
    return 0


cdef class Colocation:
    """The model of a kind of master. Made by `_core.colocation.model_file`; see model.pxd.

    `trees` has for each tree lists of the same length: feature, threshold, left, right, value; a
    leaf has left = right = -1. ValueError for what is no such model.
    """

    def __cinit__(
        self,
        *,
        bint shared,
        double cores,
        double interference,
        double service_scale=1.0,
        double overhead_s=0.0,
        double service_variance=0.0,
        double speed_variance=0.0,
        double window_s=100.0,
        bint serial=False,
        trees=(),
    ):
        if not 1.0 <= cores <= 4096.0:
            raise ValueError(f"cores = {cores} is not in 1..4096")
        if not 0.0 < service_scale < 1e6:
            raise ValueError(f"service_scale = {service_scale} is not above 0")
        if not 0.0 < window_s < 1e9:
            raise ValueError(f"window_s = {window_s} is not a time above 0")
        for name, value in (
            ("interference", interference),
            ("overhead_s", overhead_s),
            ("service_variance", service_variance),
            ("speed_variance", speed_variance),
        ):
            if not 0.0 <= value < 1e6:
                raise ValueError(f"{name} = {value} is not 0 or above")
        memset(&self.f, 0, sizeof(Forest))
        self.p.shared = shared
        self.p.serial = serial
        self.p.cores = cores
        self.p.interference = interference
        self.p.service_scale = service_scale
        self.p.overhead_s = overhead_s
        self.p.service_variance = service_variance
        self.p.speed_variance = speed_variance
        self.p.window_s = window_s
        self._plant(list(trees))

    def __dealloc__(self):
        free(self.f.nodes)
        free(self.f.roots)

    def _plant(self, trees):
        cdef int size = 0
        cdef int first
        cdef Node *node
        for number, tree in enumerate(trees):
            lengths = {len(column) for column in tree}
            if len(tree) != 5 or len(lengths) != 1 or lengths == {0}:
                raise ValueError(f"tree {number}: its lists are not of one length above 0")
            size += lengths.pop()
            if size > MAX_NODES:
                raise ValueError(f"the trees have more than {MAX_NODES} nodes")
        if not size:
            return
        self.f.nodes = <Node *>calloc(size, sizeof(Node))
        self.f.roots = <int *>calloc(len(trees), sizeof(int))
        if self.f.nodes == NULL or self.f.roots == NULL:
            raise MemoryError
        size = 0
        for number, tree in enumerate(trees):
            first = size
            steps = []  # to each node; children come after their parents, so there is no circle
            for place, (feature, threshold, left, right, value) in enumerate(
                zip(*tree, strict=True)
            ):
                node = &self.f.nodes[size]
                depth = 0 if place == 0 else max(
                    (steps[i] + 1 for i in range(place) if place in (tree[2][i], tree[3][i])),
                    default=0,
                )
                steps.append(depth)
                leaf = left == -1 and right == -1
                if not leaf and not (place < left < len(tree[0]) and place < right < len(tree[0])):
                    raise ValueError(f"tree {number}, node {place}: a child is out of place")
                if not (0 <= feature < FEATURES and isfinite(threshold)):
                    raise ValueError(f"tree {number}, node {place}: no such feature or threshold")
                if not -MAX_LOG <= value <= MAX_LOG:
                    raise ValueError(f"tree {number}, node {place}: value {value} is no logarithm")
                node.feature = feature
                node.threshold = threshold
                node.value = value
                node.left = size if leaf else first + left
                node.right = size if leaf else first + right
                self.f.depth = max(self.f.depth, depth)
                size += 1
            self.f.roots[number] = first
        self.f.trees = len(trees)


cdef class Candidates:
    """Topics of which some may share a master; their numbers are their places in the lists.

    Times in s, rates in messages a second; `publishers` 0 stands for Poisson arrivals, a number for
    that many periodic ones. A topic keeps its objective if `quantile` of its latencies does.
    """

    def __cinit__(
        self, Colocation model not None, service_s, rate, publishers, objective_s, quantile
    ):
        cdef int i
        lists = [list(each) for each in (service_s, rate, publishers, objective_s, quantile)]
        if len({len(each) for each in lists}) != 1:
            raise ValueError("the lists of the topics differ in length")
        self.model = model
        self.count = len(lists[0])
        self.loads = <Load *>malloc(max(self.count, 1) * sizeof(Load))
        if self.loads == NULL:
            raise MemoryError
        for i in range(self.count):
            self.loads[i].service_s = lists[0][i]
            self.loads[i].rate = lists[1][i]
            self.loads[i].publishers = lists[2][i]
            self.loads[i].objective_s = lists[3][i]
            self.loads[i].quantile = lists[4][i]
            _check_load(&self.loads[i], f"topic {i}")

    def __dealloc__(self):
        free(self.loads)

    cdef int choose(self, object topics) except -1:
        cdef int count = 0
        cdef int topic
        for number in topics:
            topic = number
            if not 0 <= topic < self.count:
                raise IndexError(f"topic {topic} is not in 0..{self.count - 1}")
            if count == MAX_TOPICS:
                raise ValueError(f"more than {MAX_TOPICS} topics share a master")
            self.chosen[count] = &self.loads[topic]
            count += 1
        if not count:
            raise ValueError("no topics")
        return count

    def latencies(self, topics):
        """The predicted latencies (s) of `topics` when they share a master, in their order."""
        cdef double[MAX_TOPICS] latency_s
        cdef int count = self.choose(topics)
        predict(&self.model.p, &self.model.f, self.chosen, count, latency_s, NULL)
        return [latency_s[i] for i in range(count)]

    def features(self, topics):
        """What the trees see of each of `topics`; first the logarithm of the formulas' latency."""
        cdef double[MAX_TOPICS] latency_s
        cdef double[MAX_TOPICS * FEATURES] row
        cdef int count = self.choose(topics)
        cdef int i
        predict(&self.model.p, &self.model.f, self.chosen, count, latency_s, row)
        return [[row[i * FEATURES + j] for j in range(FEATURES)] for i in range(count)]

    def feasible(self, topics):
        """Whether each of `topics` keeps its objective when they share a master."""
        cdef double[MAX_TOPICS] latency_s
        cdef int count = self.choose(topics)
        cdef int i
        predict(&self.model.p, &self.model.f, self.chosen, count, latency_s, NULL)
        for i in range(count):
            if not latency_s[i] <= self.chosen[i].objective_s:
                return False
        return True
