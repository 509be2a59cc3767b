"""Queries, tasks, subtasks and links of nodes."""

from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.about import About, ChannelInfo, Raised, ServiceInfo
from agent.wire.base import Message
from agent.wire.buckets import Buckets, ChannelBuckets
from agent.wire.derived import Derived, DerivedTaken, DerivedValues
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column

SERIES = m.Series(
    time_ms=Int64Column.of([1_377_298_800_000, 1_377_298_801_000]),
    values={
        "temperature": Float32Column.of([23.46, 23.5]),
        "humidity": Float32Column.of([52.62, 52.75]),
    },
    source_time_ms=Int64Column.of([1_377_299_040_000, 1_377_299_100_000]),
)
FAULTY_SERIES = m.Series(
    time_ms=Int64Column.of([1_377_298_800_000, 1_377_298_802_000]),
    values={"temperature": Float32Column.of([float("nan"), 69.0])},
    quality={"temperature": UInt8Column.of([1, 32])},
    age_ms=UInt32Column.of([0, 350]),
)
AGGREGATE = m.Aggregate(
    1_377_298_800_000,
    1_377_298_801_000,
    {"temperature": m.ChannelAggregate(2, 23.46, 23.48, 23.5)},
)
LAST_AGGREGATE = m.Aggregate(
    1_377_298_800_000,
    1_377_298_801_000,
    {
        "temperature": m.ChannelAggregate(
            2, 23.46, 23.48, 23.5, last=23.5, last_ms=1_377_298_801_000
        )
    },
)
BUCKETS = Buckets(
    1_377_298_800_000,
    300_000,
    {
        "temperature": ChannelBuckets(
            UInt32Column.of([300, 0, 298]),
            Float32Column.of([23.25, float("nan"), 23.5]),
            Float32Column.of([23.46, float("nan"), 23.55]),
            Float32Column.of([23.5, float("nan"), 23.75]),
            bad=UInt32Column.of([0, 0, 2]),
            suspect=UInt32Column.of([1, 0, 0]),
        ),
        "humidity": ChannelBuckets(
            UInt32Column.of([300, 300, 300]), *[Float32Column.of([52.5, 52.75, 53.0])] * 3
        ),
    },
)
ABOUT = About(
    (ChannelInfo("temperature", "celsius"), ChannelInfo("vote")),
    (Raised("hot", 1_377_298_800_000, "temperature > 30: temperature 31.2 celsius"),),
    heard_ms_ago=480,
)

SAMPLES: dict[str, Message] = {
    "query_about": m.Query(
        id="q8",
        areas=("*",),
        window=m.Window(last_s=1.0),
        slo=m.Slo(99.0, 5_000.0),
        form="about",
    ),
    "answer_about": m.Answer(
        id="q8",
        status="partial",
        elapsed_ms=2.5,
        slo_met=False,
        coverage=m.Coverage(2, 3),
        results=(
            m.AreaResult("b1/f4/r413", about=ABOUT, name="Meeting 4.13"),
            m.AreaResult("b1/f4/r415", about=About((), down=True)),
        ),
        missing=(m.Missing("b1/f7/r752", "no_node"),),
        services=(
            ServiceInfo("default", areas=("b1",)),
            ServiceInfo("warm", "temperature", 99.5, 500.0, 20.0, ("b1/f4", "b1/f7")),
        ),
    ),
    "query_buckets": m.Query(
        id="q9",
        areas=("b1/f4/r413",),
        window=m.Window(last_s=86_400.0),
        slo=m.Slo(99.0, 500.0),
        form="buckets",
        buckets=300,
    ),
    "answer_buckets": m.Answer(
        id="q9",
        status="complete",
        elapsed_ms=81.25,
        slo_met=True,
        coverage=m.Coverage(1, 1),
        results=(m.AreaResult("b1/f4/r413", buckets=BUCKETS),),
    ),
    "answer_last": m.Answer(
        id="q10",
        status="complete",
        elapsed_ms=81.25,
        slo_met=True,
        coverage=m.Coverage(1, 1),
        results=(m.AreaResult("b1/f4/r413", aggregate=LAST_AGGREGATE),),
    ),
    "task_buckets": m.Task(
        id="0123456789ab-5",
        areas=("b1/f4",),
        window=m.Window(last_s=86_400.0),
        percentile=99.498743710662,
        budget_ms=500.0,
        timeout_ms=1_900.0,
        form="buckets",
        bucket_ms=288_000,
    ),
    "task_about": m.Task(
        id="0123456789ab-6",
        areas=("*",),
        window=m.Window(last_s=1.0),
        percentile=99.0,
        budget_ms=5_000.0,
        timeout_ms=4_900.0,
        form="about",
    ),
    "hello_units": nm.Hello(
        node="n1",
        incarnation="5f1d3c",
        history="a81be0",
        areas=("b1/f4/r413",),
        channels=("temperature", "vote"),
        pods=1,
        version="1.0",
        units={"temperature": "celsius"},
        makes_buckets=True,
    ),
    "subtask_buckets": nm.Subtask(
        id=15, window=m.Window(last_s=86_400.0), form="buckets", bucket_ms=288_000
    ),
    "subtask_result_buckets": nm.SubtaskResult(15, "ok", 0.25, 1.5, buckets=BUCKETS),
    "query": m.Query(
        id="q1",
        areas=("b1/f4", "b1/f7/r752"),
        window=m.Window(last_s=600.0),
        slo=m.Slo(99.0, 500.0),
    ),
    "query_full": m.Query(
        id="q2",
        areas=("b1",),
        window=m.Window(start_ms=1_377_298_800_000, end_ms=1_377_302_400_000),
        slo=m.Slo(99.9, 800.0),
        channels=("temperature",),
        form="aggregate",
        timeout_ms=1_500.0,
        label="class 2",
        emulation_seed=7,
    ),
    "answer_series": m.Answer(
        id="q1",
        status="partial",
        elapsed_ms=81.25,
        slo_met=False,
        coverage=m.Coverage(1, 2),
        results=(m.AreaResult("b1/f4/r413", series=SERIES),),
        missing=(m.Missing("b1/f7/r752", "node_down"),),
        tasks=(m.TaskReport("iad3", 99.498743710662, 500.0, m.Coverage(1, 1), 79.5),),
    ),
    "answer_aggregate": m.Answer(
        id="q2",
        status="complete",
        elapsed_ms=81.25,
        slo_met=True,
        coverage=m.Coverage(1, 1),
        results=(m.AreaResult("b1/f4/r413", aggregate=AGGREGATE),),
    ),
    "answer_refused": m.Answer(
        id="q3",
        status="refused",
        elapsed_ms=0.5,
        slo_met=False,
        coverage=m.Coverage(0, 1),
        reason="infeasible",
        message="the SLO cannot be met even by idle nodes",
    ),
    "task": m.Task(
        id="0123456789ab-1",
        areas=("b1/f4",),
        window=m.Window(last_s=600.0, ago_s=60.0),
        percentile=99.498743710662,
        budget_ms=500.0,
        timeout_ms=1_900.0,
    ),
    "task_result": m.TaskResult(
        id="0123456789ab-1",
        status="partial",
        total_ms=79.5,
        results=(m.AreaResult("b1/f4/r413", series=SERIES),),
        missing=(m.Missing("b1/f4/r415", "no_data"),),
    ),
    "hello": nm.Hello(
        node="n1",
        incarnation="5f1d3c",
        history="a81be0",
        areas=("b1/f4/r413",),
        channels=("temperature", "humidity"),
        pods=1,
        version="0.1.0",
        emulates="pi4",
        running=(12,),
    ),
    "hello_release": nm.Hello(
        node="n1",
        incarnation="5f1d3c",
        history="a81be0",
        areas=("b1/f4/r413",),
        channels=("temperature", "humidity"),
        pods=1,
        version="1.0",
        release="0.1.0-3f9c2a1b",
    ),
    "hello_masters": nm.Hello(
        node="n1",
        incarnation="5f1d3c",
        history="a81be0",
        areas=("b1/f4/r413",),
        channels=("temperature", "humidity"),
        pods=1,
        version="1.0",
        masters=("iad1", "iad2"),
        followed=True,
    ),
    "heartbeat": nm.Heartbeat("5f1d3c"),
    "heartbeat_running": nm.Heartbeat("5f1d3c", (12, 13)),
    "goodbye": nm.Goodbye("5f1d3c"),
    "goodbye_named": nm.Goodbye("5f1d3c", "n1"),
    "subtask": nm.Subtask(id=12, window=m.Window(last_s=600.0), channels=("temperature",)),
    "subtask_result": nm.SubtaskResult(
        id=12, outcome="ok", wait_ms=0.125, execution_ms=62.5, series=SERIES
    ),
    "task_no_channel": m.TaskResult(
        id="0123456789ab-3",
        status="partial",
        total_ms=1.5,
        missing=(m.Missing("b1/f4/r415", "no_channel", ("humidity", "temperature")),),
    ),
    "task_too_large": m.TaskResult(
        id="0123456789ab-4",
        status="partial",
        total_ms=1.5,
        missing=(
            m.Missing(
                "b1/f4/r415",
                "too_large",
                message="25 MB of readings, at most 17 MB fit: ask for at most 48 h of it, fewer"
                " channels or areas, or aggregates",
                longest_s=172_800.0,
            ),
        ),
    ),
    "query_takes_too_large": m.Query(
        id="q7",
        areas=("b1/f4",),
        window=m.Window(last_s=259_200.0),
        slo=m.Slo(99.0, 500.0),
        takes_too_large=True,
    ),
    "subtask_too_large": nm.SubtaskResult(
        14,
        "error",
        0.25,
        1.5,
        message="25 MB of readings, at most 17 MB fit: ask for at most 48 h of it, fewer"
        " channels or areas, or aggregates",
        too_large=nm.TooLarge(24_883_200, 172_800.0),
    ),
    "subtask_error": nm.SubtaskResult(
        id=13, outcome="error", wait_ms=0.0, execution_ms=0.0, message="all pods are busy"
    ),
    "subtask_faulty": nm.SubtaskResult(8, "ok", 0.25, 1.5, series=FAULTY_SERIES),
    "subtask_aggregate": nm.SubtaskResult(
        9,
        "ok",
        0.25,
        1.5,
        aggregate=m.Aggregate(
            1_377_298_800_000,
            1_377_298_801_000,
            {"temperature": m.ChannelAggregate(1, 69.0, 69.0, 69.0, bad=1, suspect=1)},
        ),
    ),
    "subtask_dead_sensor": nm.SubtaskResult(
        10,
        "ok",
        0.25,
        1.5,
        aggregate=m.Aggregate(
            1_377_298_800_000,
            1_377_298_801_000,
            {"temperature": m.ChannelAggregate(0, bad=2)},
        ),
    ),
    "node_events": nm.NodeEvents(
        "5f1d3c",
        "9c1f0a",
        (
            nm.NodeEvent(
                4_294_967_296,
                "fault_began",
                1_377_298_802_000,
                True,
                sensor="dht",
                channel="temperature",
                text="drift: 45.5 celsius over co-located channels",
            ),
        ),
        backlog=3,
        dropped=1,
        oldest=4_294_967_294,
    ),
    "node_events_trigger": nm.NodeEvents(
        "5f1d3c",
        "9c1f0a",
        (
            nm.NodeEvent(
                4_294_967_300,
                "trigger_raised",
                1_377_298_902_000,
                True,
                sensor="dht",
                channel="temperature",
                text="temperature > 30: temperature 31.25 celsius, for 10 s",
                trigger="hot",
                value=31.25,
                areas=("b1/f4/r413", "b1/f4/r414"),
            ),
            nm.NodeEvent(
                4_294_967_301,
                "trigger_cleared",
                1_377_298_990_000,
                True,
                sensor="dht",
                channel="temperature",
                text="not known what temperature is for 300 s",
                trigger="hot",
                areas=("b1/f4/r413", "b1/f4/r414"),
            ),
        ),
        oldest=4_294_967_300,
    ),
    "events_taken": nm.EventsTaken("5f1d3c", "9c1f0a", (4_294_967_296,)),
    "welcome": nm.Welcome("5f1d3c", 1.0),
    "welcome_events": nm.Welcome("5f1d3c", 1.0, takes_events=True),
    "welcome_events_known": nm.Welcome(
        "5f1d3c", 1.0, takes_events=True, events_to=4_294_967_300, events_settled=4_294_967_296
    ),
    "hello_wanted": nm.HelloWanted(),
    "rejected": nm.Rejected("another node named n1 is at work here"),
    "cancel_task": m.CancelTask("0123456789ab-1"),
    "task_origin": m.Task(
        id="0123456789ab-2",
        areas=("b1/f4",),
        window=m.Window(last_s=600.0),
        percentile=99.0,
        budget_ms=500.0,
        timeout_ms=1_900.0,
        service="climate",
        origin="iad2",
    ),
    "pods_set": nm.PodsSet("5f1d3c", 2),
    "set_pods": nm.SetPods(2),
    "home_moved": nm.HomeMoved("5f1d3c", "iad2"),
    "hello_derived": nm.Hello(
        node="n1",
        incarnation="5f1d3c",
        history="a81be0",
        areas=("b1/f4/r413",),
        channels=("temperature", "humidity"),
        pods=1,
        version="1.0",
        takes_derived=True,
    ),
    "derived": Derived(
        "5f1d3c",
        "3e7a90",
        (
            DerivedValues(41, 10_250, {"forecast": 23.5}),
            DerivedValues(43, 250, {"forecast": 23.75, "comfort": 0.25}),
        ),
    ),
    "derived_taken": DerivedTaken("5f1d3c", "3e7a90", 43),
    "query_stale_ok": m.Query(
        id="q8",
        areas=("b1/f4",),
        window=m.Window(last_s=600.0),
        slo=m.Slo(99.0, 500.0),
        stale_ok=True,
    ),
    "task_stale_ok": m.Task(
        id="0123456789ab-5",
        areas=("b1/f4",),
        window=m.Window(last_s=600.0),
        percentile=99.0,
        budget_ms=500.0,
        timeout_ms=1_900.0,
        stale_ok=True,
    ),
    "task_result_stale": m.TaskResult(
        id="0123456789ab-5",
        status="partial",
        total_ms=1.5,
        results=(m.AreaResult("b1/f4/r413", aggregate=AGGREGATE, stale_ms=95_000),),
        missing=(m.Missing("b1/f4/r413", "node_down"),),
    ),
}
