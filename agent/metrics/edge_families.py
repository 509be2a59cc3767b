"""Metric families of an edge node; `families` has those of other agents, and the conventions."""

from __future__ import annotations

from typing import Final

from agent.metrics.families import COMMON, Family

# A Pi's pod serves a short window in a tenth of a millisecond; an emulated one takes a second.
SUBTASK_S: Final = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    2.5, 10.0,
)  # fmt: skip

SENSOR_VALUES = Family(
    "sanderling_edge_sensor_values_total",
    "counter",
    ("sensor", "channel", "outcome"),
    "values",
    "Values by outcome: good, or the worst that is wrong with it (no_response, checksum, "
    "out_of_range, spike, flatline, drift). The share of good ones is a sensor's success rate.",
)
TICKS_MISSED = Family(
    "sanderling_edge_sensor_readings_missed_total",
    "counter",
    ("sensor",),
    "readings",
    "Readings that were not taken, because the sensor or the processor was too slow.",
)
SILENCE = Family(
    "sanderling_edge_sensor_silence_seconds",
    "gauge",
    ("sensor",),
    "seconds",
    "Since the latest value that is no failure was read, by a clock that never jumps; since the "
    "start if there was none.",
)
VALUE_AGE = Family(
    "sanderling_edge_sensor_value_age_seconds",
    "gauge",
    ("sensor",),
    "seconds",
    "How old the latest such value was when it was read.",
)
FAULTS = Family(
    "sanderling_edge_sensor_faults",
    "gauge",
    ("sensor",),
    "channels",
    "Channels of the sensor that have a fault now.",
)
HELPER_RESTARTS = Family(
    "sanderling_edge_sensor_helper_restarts_total",
    "counter",
    ("sensor",),
    "restarts",
    "How often the sensor's helper process was started again; 0 where there is none.",
)
ACKNOWLEDGED = Family(
    "sanderling_edge_history_readings_stored_total",
    "counter",
    (),
    "readings",
    "Readings put on stable storage.",
)
GIVEN_UP = Family(
    "sanderling_edge_history_readings_given_up_total",
    "counter",
    (),
    "readings",
    "Readings lost because the file could not be written.",
)
WRITTEN = Family(
    "sanderling_edge_written_bytes_total",
    "counter",
    (),
    "bytes",
    "Bytes that the agent had written to storage, as the kernel counts them.",
)
EVENTS_WAITING = Family(
    "sanderling_edge_events_waiting",
    "gauge",
    (),
    "events",
    "Events that the master has not taken over yet.",
)
EVENTS_DROPPED = Family(
    "sanderling_edge_events_dropped_total",
    "counter",
    (),
    "events",
    "Events given up for want of room, since the history began.",
)
TRIGGERS_RAISED = Family(
    "sanderling_edge_triggers_raised_total",
    "counter",
    ("trigger",),
    "events",
    "How often the trigger was raised; from 0 for each trigger of the configuration.",
)
SUBTASK_DURATION = Family(
    "sanderling_edge_subtask_duration_seconds",
    "histogram",
    ("stage", "outcome"),
    "seconds",
    "What subtasks took here: node_wait, from the frame's arrival to the start of the work, and "
    "execution, from there to its end.",
    SUBTASK_S,
)
LINK_JOINED = Family(
    "sanderling_edge_link_joined", "gauge", (), "", "1 while the master knows this node as live."
)
SYNCHRONISED = Family(
    "sanderling_edge_clock_synchronised",
    "gauge",
    (),
    "",
    "1 while the wall clock is synchronised from the network.",
)

EDGE: Final = (
    SENSOR_VALUES, TICKS_MISSED, SILENCE, VALUE_AGE, FAULTS, HELPER_RESTARTS, ACKNOWLEDGED,
    GIVEN_UP, WRITTEN, EVENTS_WAITING, EVENTS_DROPPED, TRIGGERS_RAISED, SUBTASK_DURATION,
    LINK_JOINED, SYNCHRONISED, *COMMON,
)  # fmt: skip
