"""Packing topics onto the fewest masters: the k-TCP paper's heuristics, and its lower bound.

Topics are numbers, and a planner asks `feasible` about each set that it means to make. A topic that
is infeasible even alone gets a master of its own: `infeasible_alone` names those, for nobody can
place them better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from fleet.placement.latency import Feasibility

Bins = list[list[int]]


class Problem(Struct, frozen=True):
    """Topics to pack; `latency_alone` (s) and `load` (CPU-seconds a second) are by their numbers,
    and at most `most` share a master."""

    topics: list[int]
    latency_alone: Sequence[float]
    load: Sequence[float]
    most: int
    feasible: Feasibility

    def slowest_first(self) -> list[int]:
        """The topics in descending order of their latency alone, equal ones by number."""
        return sorted(self.topics, key=lambda topic: (-self.latency_alone[topic], topic))

    def heaviest_first(self) -> list[int]:
        """The topics in descending order of their load, equal ones by number."""
        return sorted(self.topics, key=lambda topic: (-self.load[topic], topic))

    def fits(self, place: int, topics: Sequence[int]) -> bool:
        """Whether these may share a master, wherever it is (`repair.Fits`)."""
        del place
        return len(topics) <= self.most and self.feasible(topics)

    def infeasible_alone(self) -> list[int]:
        """The topics that miss their objective even alone."""
        return [topic for topic in self.topics if not self.feasible((topic,))]


Planner = Callable[[Problem], Bins]


def ffd(problem: Problem) -> Bins:
    """FFD_k (Algorithm 1). O(n · bins) questions."""
    return first_fit(problem.slowest_first(), problem.most, problem.feasible)


def first_fit(
    topics: Iterable[int], most: int, feasible: Feasibility, bins: Bins | None = None
) -> Bins:
    """Each topic in turn goes into the first of `bins`, which begin as given, that stays feasible,
    else into a new one."""
    found = [list(each) for each in bins or ()]
    for topic in topics:
        for each in found:
            if len(each) < most and feasible([*each, topic]):
                each.append(topic)
                break
        else:
            found.append([topic])
    return found


def balanced(problem: Problem) -> Bins:
    """First fit by falling load, then the same topics evenly on one master less, as long as that
    works. First fit puts what is heavy together and what is light, of which only `most` share a
    master; spread evenly each has some of both. O(n · bins) questions a try, mostly one a topic."""
    topics = problem.heaviest_first()
    bins = first_fit(topics, problem.most, problem.feasible)
    while bins and (fewer := spread(problem, topics, len(bins) - 1)):
        bins = fewer
    return bins


def spread(problem: Problem, topics: Iterable[int], count: int) -> Bins | None:
    """Each topic in turn goes into the least loaded of `count` bins that stays feasible; None if
    there is none."""
    bins: Bins = [[] for _ in range(count)]
    load = [0.0] * count
    for topic in topics:
        for place in sorted(range(count), key=load.__getitem__):
            if not bins[place] or problem.fits(place, [*bins[place], topic]):
                bins[place].append(topic)
                load[place] += problem.load[topic]
                break
        else:
            return None
    return bins


def lfs(problem: Problem) -> Bins:
    """LFS_k (Algorithm 2). O(n^k) questions at worst; the paper leaves open which of the feasible
    sets is taken, and the heaviest first leave the fewest masters in most cases."""
    return largest_sets(problem.heaviest_first(), problem.most, problem.feasible)


def either(problem: Problem) -> Bins:
    """The fewer masters of `balanced` and LFS, evenly loaded ones where both have as many."""
    return min(balanced(problem), lfs(problem), key=len)


def largest_sets(topics: Sequence[int], most: int, feasible: Feasibility) -> Bins:
    """Feasible sets of `most` topics until there is none, then of one topic less, and so on; pairs
    by a maximum matching."""
    bins: Bins = []
    rest = list(topics)
    for size in range(most, 2, -1):
        found = list(disjoint_sets(rest, size, feasible))
        bins += found
        taken = {topic for each in found for topic in each}
        rest = [topic for topic in rest if topic not in taken]
    return bins + (matched(rest, feasible) if most >= 2 else [[topic] for topic in rest])


def hybrid(least: int) -> Planner:
    """LFS_k'+FFD_k (Algorithm 3) with k' = `least`."""

    def plan(problem: Problem) -> Bins:
        most, feasible = problem.most, problem.feasible
        bins: Bins = []
        rest = problem.slowest_first()
        size = min(least, most)
        # The printed algorithm never tries k' = 2; matching is exact there, so it comes next.
        while size > 2 and (found := next(disjoint_sets(rest, size, feasible), None)):
            for topic in [topic for topic in rest if topic not in found]:
                if len(found) < most and feasible([*found, topic]):
                    found.append(topic)
            rest = [topic for topic in rest if topic not in found]
            bins.append(found)
        return bins + largest_sets(rest, max(size - 1, min(2, most)), feasible)

    return plan


def disjoint_sets(topics: Sequence[int], size: int, feasible: Feasibility) -> Iterator[list[int]]:
    """Feasible sets of `size` topics, each of topics that no earlier one took, until there is none.

    Depth first, heaviest first; a prefix is given up with which the lightest of the rest do not
    fit, as is a topic that does not fit with it. No set is looked at twice: what was infeasible
    before a set was taken is so after it, hence the search goes on behind its first topic.
    """
    taken: set[int] = set()

    def grow(prefix: list[int], rest: list[int]) -> list[int] | None:
        missing = size - len(prefix)
        if not missing:
            return prefix
        if len(rest) < missing or not feasible(prefix + rest[-missing:]):
            return None
        fit = [topic for topic in rest if feasible([*prefix, topic])]
        for place in range(len(fit) - missing + 1):
            found = grow([*prefix, fit[place]], fit[place + 1 :])
            if found:
                return found
        return None

    for place, topic in enumerate(topics):
        if topic not in taken and feasible((topic,)):
            rest = [each for each in topics[place + 1 :] if each not in taken]
            found = grow([topic], rest)
            if found:
                taken.update(found)
                yield found


def matched(topics: Sequence[int], feasible: Feasibility) -> Bins:
    """The fewest sets of at most two topics: a maximum matching. O(n³)."""
    import networkx as nx

    graph = nx.Graph()
    for place, one in enumerate(topics):
        for other in topics[place + 1 :]:
            if feasible((one, other)):
                graph.add_edge(one, other)
    pairs = sorted(sorted(pair) for pair in nx.max_weight_matching(graph, maxcardinality=True))
    paired = {topic for pair in pairs for topic in pair}
    return pairs + [[topic] for topic in topics if topic not in paired]
