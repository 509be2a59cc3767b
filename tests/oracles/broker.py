"""`_core.simulator.broker` as lists that are searched at every event."""

from collections.abc import Sequence


def simulate(
    topic: Sequence[int],
    arrived_s: Sequence[float],
    service_s: Sequence[float],
    *,
    cores: int,
    interference: float,
    budget_s: Sequence[float] | None = None,
) -> list[float]:
    """The end of each message."""
    left = dict(enumerate(service_s))  # work of messages that have not ended
    ended = [0.0] * len(topic)
    active: list[int] = []
    now, arriving = 0.0, 0
    while left:
        waiting = [i for i in range(arriving) if i in left and i not in active]
        if budget_s is None:
            taken = {topic[i] for i in active}
            for i in waiting:
                if topic[i] not in taken:
                    active.append(i)
                    taken.add(topic[i])
        else:
            waiting.sort(key=lambda i: (arrived_s[i] + budget_s[topic[i]], i))
            active += waiting[: cores - len(active)]
        n = len(active)
        speed = min(1.0, cores / n) / (1.0 + interference * (n - 1)) if n else 1.0
        first = min(active, key=lambda i: left[i], default=None)
        end = now + left[first] / speed if first is not None else float("inf")
        if arriving < len(topic) and arrived_s[arriving] < end:
            end, first = arrived_s[arriving], None
            arriving += 1
        for i in active:
            left[i] -= (end - now) * speed
        now = end
        if first is not None:
            active.remove(first)
            del left[first]
            ended[first] = now
    return ended
