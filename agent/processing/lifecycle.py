"""Transition tables of message processors and of worker processes, keyed (from, to)."""

from __future__ import annotations

from typing import Final

PROCESSOR_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "loading"): "created, with or without a checkpoint",
    ("loading", "ready"): "a worker built it and restored its state",
    ("loading", "backing_off"): "it cannot be built, or its worker ended",
    ("loading", "disabled"): "it failed too often in a row",
    ("ready", "running"): "its oldest message went to its worker",
    ("ready", "loading"): "it moves to another worker, or another processor ended its worker",
    ("ready", "backing_off"): "its state cannot be kept, or it took too much memory",
    ("ready", "disabled"): "it failed too often in a row",
    ("running", "ready"): "the message is processed",
    ("running", "loading"): "another processor's memory ended its worker",
    ("running", "backing_off"): "it raised, took too long, gave nonsense, or ended its worker",
    ("running", "disabled"): "it failed too often in a row",
    ("backing_off", "loading"): "the pause is over",
    ("disabled", "loading"): "an operator enabled it",
    ("loading", "removed"): "its topic was removed or handed over",
    ("ready", "removed"): "its topic was removed or handed over",
    ("running", "removed"): "its topic was removed",
    ("backing_off", "removed"): "its topic was removed or handed over",
    ("disabled", "removed"): "its topic was removed or handed over",
}
WORKER_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "starting"): "its process is started",
    ("starting", "idle"): "it said that it is ready",
    ("idle", "busy"): "it builds a processor, runs a message or takes a snapshot",
    ("busy", "idle"): "it answered",
    ("starting", "ending"): "it took too long to start",
    ("busy", "ending"): "it took too long, too much memory, or wrote what is no answer",
    ("idle", "ending"): "it wrote without being asked",
    ("starting", "ended"): "its process ended",
    ("idle", "ended"): "its process ended",
    ("busy", "ended"): "its process ended",
    ("ending", "ended"): "its process ended",
}
