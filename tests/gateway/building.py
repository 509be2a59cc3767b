"""A building made up for the console: its rooms, their readings, what questions get, what was late.

Everything but the time is the same in each run.
"""

from __future__ import annotations

import math
import time
from typing import Any

UNITS = {"temperature": "°C", "humidity": "%", "co2": "ppm"}
FLOORS = {
    4: (413, 415, 417, 421, 422, 424, 442, 446),
    5: (510, 513, 552, 554, 556, 558, 562, 564),
    6: (621, 640, 644, 648, 664, 666, 668),
    7: (717, 719, 721, 722, 726, 734, 746, 748, 752),
}
NAMES = {
    413: "Meeting 4.13",
    415: "Library 4.15",
    424: "Office 4.24",
    446: "Office 4.46",
    510: "Lab 5.10",
    564: "Archive 5.64",
    621: "Office 6.21",
    640: "Server room 6.40",
    719: "Seminar 7.19",
    721: "Seminar 7.21",
    752: "Studio 7.52",
}
IADS = {7: "iad1", 5: "iad2", 4: "iad4", 6: "iad3"}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Building:
    """What there is, and what happens in it. Everything but the time is the same in each run."""

    def __init__(self, floors: dict[int, tuple[int, ...]] | None = None) -> None:
        self.started_ms = now_ms()
        self.rooms = [
            self._room(floor, room) for floor, rooms in (floors or FLOORS).items() for room in rooms
        ]
        self.since_ms = 0  # no readings are older
        self.alerts: list[dict[str, Any]] = []
        self.raised: list[dict[str, Any]] = []
        for minutes, kind, room, value in (
            (1500, "raised", "b1/f6/r640", 61.2),
            (1431, "cleared", "b1/f6/r640", 58.4),
            (410, "raised", "b1/f4/r424", 27.4),
            (262, "cleared", "b1/f4/r424", 25.8),
            (95, "raised", "b1/f6/r648", 62.0),
            (41, "raised", "b1/f6/r640", 63.4),
            (12, "cleared", "b1/f6/r648", 58.9),
        ):
            trigger = "hot" if room.endswith("r424") else "humidity-up"
            self.add_alert(kind, trigger, room, value, self.started_ms - minutes * 60_000)
        self.raised = [
            {
                "trigger": "humidity-up",
                "area": "b1/f6/r640",
                "since_ms": self.started_ms - 41 * 60_000,
                "iad": "iad3",
                "metric": "humidity",
                "value": 63.4,
                "position": 6,
                "text": "rate(humidity) > 0.2/min: humidity 63.412 percent, 0.333 a minute",
            }
        ]

    def _room(self, floor: int, room: int) -> dict[str, Any]:
        area = f"b1/f{floor}/r{room}"
        warm = (
            21.2 + room % 7 * 0.55 + (5.2 if room == 424 else 0.0) - (3.4 if room == 719 else 0.0)
        )
        humid = 41.0 + room % 11 * 1.3 + (16.0 if room == 640 else 0.0)
        at = self.started_ms - 800 - room % 5 * 300
        values = {"temperature": warm, "humidity": humid}
        if floor == 7 and room % 2:
            values["co2"] = 520.0 + room % 10 * 61
        state, reason, quality = "live", "", "good"
        if room == 446:
            state, reason, at = "stale", "nothing new from it", self.started_ms - 14 * 60_000
        if room == 564:
            state, reason, values = "missing", "node_down", {}
        channels = {
            channel: {
                "value": round(value, 2),
                "time_ms": at,
                "quality": quality,
                "unit": UNITS[channel],
            }
            for channel, value in values.items()
        }
        if room == 621:
            channels["humidity"] |= {"value": None, "quality": "bad"}
        if room == 752:
            channels["temperature"] |= {"quality": "suspect"}
        return {
            "area": area,
            "name": NAMES.get(room, ""),
            "state": state,
            "reason": reason,
            "channels": dict(sorted(channels.items())),  # as a gateway has them
        }

    def spark(self, room: dict[str, Any]) -> dict[str, list[float | None]]:
        phase = sum(room["area"].encode())
        return {
            channel: [
                None
                if reading["value"] is None or (phase % 9 == 0 and 20 < i < 26)
                else round(reading["value"] + 0.02 * reading["value"] * math.sin(phase + i / 7), 2)
                for i in range(60)
            ]
            for channel, reading in room["channels"].items()
        }

    def add_alert(
        self, kind: str, trigger: str, area: str, value: float, at_ms: int | None = None
    ) -> dict[str, Any]:
        metric = "temperature" if trigger == "hot" else "humidity"
        alert = {
            "position": len(self.alerts) + 1,
            "received_ms": at_ms or now_ms(),
            "origin": ["iad3", "9c1f04d2a77e3b15", 16 * len(self.alerts)],
            "time_ms": at_ms or now_ms(),
            "attributes": {
                "iad": "iad3",
                "kind": kind,
                "trigger": trigger,
                "metric": metric,
                "area": area,
                "value": value,
            },
        }
        self.alerts.append(alert)
        return alert

    def at(self, area: str) -> dict[str, Any]:
        return next(room for room in self.rooms if room["area"] == area)

    def below(self, area: str) -> list[dict[str, Any]]:
        return [r for r in self.rooms if r["area"] == area or r["area"].startswith(area + "/")]


def readings(building: Building, area: str, span_ms: int, points: int) -> dict[str, Any]:
    """A day's course with a night, a gap and a stretch of bad values."""
    room = building.at(area)
    length = span_ms // points
    start = (now_ms() // length + 1) * length - span_ms  # the last one goes on
    channels = {}
    for channel, reading in room["channels"].items():
        base = reading["value"] if reading["value"] is not None else 50.0
        columns: dict[str, list[Any]] = {"min": [], "mean": [], "max": [], "count": [], "bad": []}
        for i in range(points):
            day = math.sin((start + i * length) / 86_400_000 * math.tau - 1.9)
            mean = base * (1 + 0.035 * day) + 0.3 * math.sin(i / 5 + len(channel))
            bad = 3 if 0.62 < i / points < 0.66 and channel == "temperature" else 0
            bad = length // 1000 if reading["value"] is None and i / points > 0.7 else bad
            count = 0 if 0.30 < i / points < 0.345 or bad > 100 else max(1, length // 1000 - bad)
            if start + (i + 1) * length <= building.since_ms:
                bad = count = 0
            spread = 0.15 + 0.2 * abs(math.sin(i))
            for name, value in (("min", mean - spread), ("mean", mean), ("max", mean + spread)):
                columns[name].append(round(value, 3) if count else None)
            columns["count"].append(count)
            columns["bad"].append(bad)
        channels[channel] = columns
    missing = [] if channels else [{"area": area, "reason": room["reason"]}]
    return {
        "area": area,
        "start_ms": start,
        "length_ms": length,
        "channels": channels,
        "unit": {channel: UNITS[channel] for channel in channels},
        "missing": missing,
        "slo_met": True,
        "elapsed_ms": 41.0,
        "held_from_ms": None,
    }


def answer_of(building: Building, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The answer to a question: kept, partial or late as the areas and the objective have it."""
    latency = body["slo"]["latency_ms"]
    if latency < 50:
        return 422, {
            "type": "about:blank",
            "title": "Unprocessable Content",
            "status": 422,
            "reason": "infeasible",
            "detail": f"p99 within {latency:g} ms cannot be kept: idle nodes take 212 ms",
        }
    results, missing, iads = [], [], {}
    for area in body["areas"]:
        rooms = building.below(area)
        if not rooms:
            missing.append({"area": area, "reason": "no_node", "nearest": ["b1/f4/r413"]})
        for room in rooms:
            iads.setdefault(IADS[int(room["area"][4])], []).append(room)
            if room["state"] == "missing":
                missing.append({"area": room["area"], "reason": "node_down"})
                continue
            results.append(
                {
                    "area": room["area"],
                    "name": room["name"],
                    "aggregate": {
                        "first_ms": now_ms() - 600_000,
                        "last_ms": now_ms(),
                        "channels": {
                            channel: {
                                "count": 600,
                                "min": r["value"] - 0.4,
                                "mean": r["value"] - 0.1,
                                "max": r["value"] + 0.3,
                                "last": r["value"],
                            }
                            if r["value"] is not None
                            else {"count": 0, "bad": 600}
                            for channel, r in room["channels"].items()
                        },
                    },
                }
            )
    tasks = [
        {
            "iad": iad,
            "percentile": 99.75 if len(iads) > 1 else 99.0,
            "budget_ms": latency,
            "coverage": {
                "answered": sum(r["state"] != "missing" for r in rooms),
                "asked": len(rooms),
            },
            "total_ms": round(88.0 + 19.4 * len(rooms) + 7 * int(iad[-1]), 1),
        }
        for iad, rooms in sorted(iads.items())
    ]
    elapsed = max([task["total_ms"] for task in tasks], default=2.0) + 6.2
    asked = len(results) + len(missing)
    return 200, {
        "type": "answer",
        "id": "console",
        "status": "partial" if missing else "complete",
        "elapsed_ms": elapsed,
        "slo_met": not missing and elapsed <= latency,
        "coverage": {"answered": len(results), "asked": asked},
        "results": results,
        "missing": missing,
        "tasks": tasks,
        "reason": None,
        "message": "",
    }


def deadlines(operator: bool) -> dict[str, Any]:
    """Three kinds of questions, with what came late in each way."""
    at = now_ms()

    def seen(
        minutes: float, latency: float, totals: dict[str, float], between: float, **more: Any
    ) -> dict[str, Any]:
        elapsed = max(totals.values(), default=0.0) + between
        tasks = [
            {
                "iad": iad,
                "percentile": 99.75,
                "budget_ms": latency,
                "coverage": {"answered": 8, "asked": 8},
                "total_ms": total,
            }
            for iad, total in totals.items()
        ]
        return {
            "time_ms": at - int(minutes * 60_000),
            "status": "complete",
            "elapsed_ms": round(elapsed, 1),
            "slo_met": elapsed <= latency,
            "coverage": {"answered": 32, "asked": 32},
            "tasks": tasks,
            "missing": {},
            "reason": "",
        } | more

    def kind(
        label: str, service: str, latency: float, n: int, answers: list[dict[str, Any]]
    ) -> dict[str, Any]:
        usual = [
            seen(
                i / 6,
                latency,
                {"iad1": 90 + 31 * math.sin(i) ** 2, "iad4": 140 + 130 * math.sin(i / 3) ** 2},
                6.0,
            )
            for i in range(60, 0, -1)
        ]
        partial = sum(each["status"] == "partial" for each in answers)
        late = sum(not each["slo_met"] for each in answers) - partial
        return {
            "label": label,
            "service": service,
            "percentile": 99.0,
            "latency_ms": latency,
            "count": n,
            "late": late,
            "partial": partial,
            "answers": usual + answers,
        }

    down = {"status": "partial", "slo_met": False, "missing": {"node_down": 1}}
    refused = {"status": "refused", "slo_met": False, "reason": "infeasible"}
    return {
        "kinds": [
            kind(
                "climate", "humidity", 800.0, 410, [seen(31, 800, {"iad1": 117, "iad4": 229}, 1011)]
            ),
            kind("console", "temperature", 5000.0, 1204, []),
            kind(
                "console-ask",
                "temperature",
                500.0,
                37,
                [
                    seen(9.1, 500, {"iad4": 527}, 6),
                    seen(4, 500, {"iad2": 140}, 5, **down),
                    seen(3, 20, {}, 2, **refused),
                    seen(2.2, 500, {"iad1": 96, "iad4": 606}, 6),
                ],
            ),
        ],
        "nodes": [
            {
                "node": f"iad4-n{n}",
                "state": "live",
                "queued": (4, 0, 1, 0, 0, 0, 0, 0)[n - 1],
                "idle_pods": int(n != 1),
                "pods": 1,
                "iad": "iad4",
            }
            for n in range(1, 9)
        ]
        if operator
        else [],
    }
