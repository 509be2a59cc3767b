"""Log record of a processor, from what was measured of it in one interval."""

from __future__ import annotations

from agent.processing.measures import Interval
from agent.processing.status import Status
from agent.wire.records import ProcessingRecord
from agent.wire.topics import Topic


def record_of(
    iad: str,
    wall_ms: int,
    start_s: float,
    seconds: float,
    topic: Topic,
    status: Status,
    interval: Interval,
    together: tuple[str, ...],
    cores: int,
    workers: int,
    others: int | None = None,
) -> ProcessingRecord:
    """`status` is that at the end of the interval."""
    counted = interval.counters
    cpu, waiting, latency = (interval.spreads[name] for name in ("cpu", "waiting", "latency"))
    return ProcessingRecord(
        iad=iad,
        wall_ms=wall_ms,
        start_s=start_s,
        topic=topic.name,
        processor=topic.processor,
        seconds=seconds,
        state=status.state,
        percentile=None if topic.slo is None else topic.slo.percentile,
        slo_ms=None if topic.slo is None else topic.slo.latency_ms,
        arrived=counted.arrived,
        processed=counted.processed,
        late=counted.late if topic.slo is not None else 0,
        failed=counted.failed,
        skipped=counted.skipped,
        outputs=counted.outputs,
        waiting=status.waiting,
        state_bytes=status.state_bytes,
        cpu_s=counted.cpu_s,
        cpu_ms=_ms(cpu.mean_s),
        cpu_p50_ms=_ms(cpu.p50_s),
        cpu_p90_ms=_ms(cpu.p90_s),
        waiting_ms=_ms(waiting.mean_s),
        waiting_p90_ms=_ms(waiting.p90_s),
        latency_ms=_ms(latency.mean_s),
        latency_p50_ms=_ms(latency.p50_s),
        latency_p90_ms=_ms(latency.p90_s),
        latency_p99_ms=_ms(latency.p99_s),
        achieved_ms=_ms(interval.objective_s),
        together=together,
        cores=cores,
        workers=workers,
        others=others,
    )


def _ms(seconds: float | None) -> float | None:
    # What is not known is NaN, which JSON does not have.
    return seconds * 1e3 if seconds is not None and seconds == seconds else None
