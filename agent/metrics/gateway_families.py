"""Metric families of a gateway, and of the rooms that it knows; `families` has the conventions."""

from __future__ import annotations

from typing import Final

from agent.metrics.families import Family

STREAMS = Family("sanderling_gateway_streams", "gauge", (), "streams", "Open event streams.")
LOOKERS = Family(
    "sanderling_gateway_lookers",
    "gauge",
    (),
    "readers",
    "Who looks at the rooms now: streams, outputs, requests of the last minute.",
)
ROOMS = Family("sanderling_gateway_rooms", "gauge", (), "areas", "Areas known.")
UP = Family(
    "sanderling_gateway_up",
    "gauge",
    ("link",),
    "",
    "1 if the master answers: the watch of the rooms (watch), the subscription (alerts). Absent "
    "for watch while nobody looks, since nothing is asked then.",
)
ALERTS = Family(
    "sanderling_gateway_alerts_total", "counter", (), "entries", "Entries of the log of alerts."
)
REQUESTS = Family(
    "sanderling_gateway_requests_total",
    "counter",
    ("method", "status"),
    "requests",
    "Requests by method and status.",
)
ANSWERS = Family(
    "sanderling_gateway_answers_total",
    "counter",
    ("label", "service"),
    "answers",
    "Answers seen.",
)
ANSWERS_LATE = Family(
    "sanderling_gateway_answers_late_total",
    "counter",
    ("label", "service"),
    "answers",
    "Those that took longer than their objective, or were refused.",
)
ANSWERS_PARTIAL = Family(
    "sanderling_gateway_answers_partial_total",
    "counter",
    ("label", "service"),
    "answers",
    "Those in time that lack areas.",
)
GATEWAY: Final = (
    STREAMS, LOOKERS, ROOMS, UP, ALERTS, REQUESTS, ANSWERS, ANSWERS_LATE, ANSWERS_PARTIAL,
)  # fmt: skip

READING = Family(
    "sanderling_room_reading",
    "gauge",
    ("area", "channel", "unit"),
    "",
    "The newest value of a channel of a room, in its unit.",
)
READING_AGE = Family(
    "sanderling_room_reading_age_seconds",
    "gauge",
    ("area", "channel", "unit"),
    "seconds",
    "Age of that value.",
)
ROOM_UP = Family(
    "sanderling_room_up", "gauge", ("area", "name"), "", "Whether the room is measured now."
)
ALERT = Family(
    "sanderling_room_alert",
    "gauge",
    ("area", "trigger"),
    "",
    "1 for each trigger that is raised.",
)
READINGS: Final = (READING, READING_AGE, ROOM_UP, ALERT)
