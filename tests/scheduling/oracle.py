"""What the scheduler tests share: tasks, hellos and plain-Python copies of the rules."""

from agent.wire import messages as m
from agent.wire import node_messages as nm

NODES = {
    "n1": ("b1/f4/r1",),
    "n2": ("b1/f4/r2",),
    "n3": ("b1/f4/r2", "b1/f5/r9"),
}


def hello(
    node: str,
    incarnation: str,
    pods: int = 1,
    running: tuple[int, ...] = (),
    areas: tuple[str, ...] | None = None,
    history: str | None = None,
    release: str = "",
    masters: tuple[str, ...] = (),
    *,
    followed: bool = False,
    channels: tuple[str, ...] = ("temperature",),
    units: dict[str, str] | None = None,
    makes_buckets: bool = True,
) -> nm.Hello:
    return nm.Hello(
        node=node,
        incarnation=incarnation,
        history=history or "h" + node,
        areas=areas or NODES[node],
        channels=channels,
        pods=pods,
        version="test",
        running=running,
        release=release,
        masters=masters,
        followed=followed,
        units=units or {},
        makes_buckets=makes_buckets,
    )


def task(
    number: int,
    areas: tuple[str, ...] = ("b1",),
    *,
    budget_ms: float = 500.0,
    timeout_ms: float = 2_000.0,
    percentile: float = 99.0,
    service: str = "default",
    channels: tuple[str, ...] = (),
    origin: str = "",
    advance_ms: float = 0.0,
    form: m.QueryForm = "aggregate",
    stale_ok: bool = False,
) -> m.Task:
    return m.Task(
        id=f"t{number}",
        areas=areas,
        window=m.Window(last_s=float(number)),
        percentile=percentile,
        budget_ms=budget_ms,
        timeout_ms=timeout_ms,
        form=form,
        service=service,
        channels=channels,
        origin=origin,
        advance_ms=advance_ms,
        stale_ok=stale_ok,
    )


def aggregate(value: float, count: int = 1) -> m.Aggregate:
    return m.Aggregate(0, 1, {"temperature": m.ChannelAggregate(count, value, value, value)})


def found(subtask_id: int, value: float = 20.0) -> nm.SubtaskResult:
    return nm.SubtaskResult(
        id=subtask_id, outcome="ok", wait_ms=0.0, execution_ms=1.0, aggregate=aggregate(value)
    )


def sent_to(instructions, kind):
    """The messages of `kind` among instructions to nodes, as (peer, message)."""
    return [
        (i.peer, i.message)
        for i in instructions
        if hasattr(i, "message") and isinstance(i.message, kind)
    ]
