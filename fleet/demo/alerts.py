"""The demo's alerts: triggers on the nodes of one IAD, a subscriber at another IAD's master."""

from __future__ import annotations

import time
from typing import Final

from agent.client import Client, Notifications
from agent.overlay.scot import BrokerId
from agent.wire.edge_config import EdgeTrigger
from agent.wire.push import Notified
from fleet.demo.story import Story
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.query import subscribe, watch
from fleet.simulation.screen import DemoScreen
from fleet.terminal import screen
from fleet.terminal.units import format_ms
from fleet.testbed.testbed import Testbed

# Tree of two vertices, two clusters: from iad4 to iad1 there are two links on either path.
OVERLAY: Final = OverlayPlan(
    links=(("a", "b"),),
    clusters=2,
    places={
        "iad1": BrokerId("a", 0),
        "iad2": BrokerId("b", 0),
        "iad3": BrokerId("a", 1),
        "iad4": BrokerId("b", 1),
    },
)
PUBLISHER: Final = "iad4"
SUBSCRIBER: Final = "iad1"
# Within a minute of the recording rooms hardly change: only a rate crosses a threshold repeatedly.
# The window contains three readings even if they are slightly more than a second apart.
TRIGGER: Final = EdgeTrigger(
    name="humidity-up",
    condition="rate(humidity) > 0.2/min",
    clear="rate(humidity) < -0.2/min",
    window_s=2.5,
)
TRIGGERS: Final = {PUBLISHER: (TRIGGER,)}
FLOOR: Final = "b1/f6"
WANTED: Final = f'metric = "humidity" and area under "{FLOOR}"'
# At any moment of the recording the next alert comes within 28 s; most come within 4 s.
MAX_SHOWN: Final = 3
SHOWN_FOR_S: Final = 8.0
PATIENCE_S: Final = 30.0


def show_alerts(bed: Testbed, show: DemoScreen, story: Story) -> list[float]:
    """Subscribe and show the next alerts; returns the delays after their readings, in ms."""
    show.heading("5  Alerts: from a node to a subscriber in another cluster")
    show.say(
        "The masters are brokers of an overlay, a path of two times a complete graph of two. "
        "Neighbours are those in one column, which is a cluster, and those in one row."
    )
    _picture(OVERLAY, show)
    show.say(
        f"Each node of {PUBLISHER} has the trigger {TRIGGER.name}: when {TRIGGER.condition} over "
        f"{TRIGGER.window_s:g} s, until {TRIGGER.clear}; a second plays a minute of the recording. "
        f"Somebody subscribes at {SUBSCRIBER}, to {WANTED}. What {PUBLISHER} has of that comes by "
        f"{' → '.join(OVERLAY.way(PUBLISHER, SUBSCRIBER))}, while all links are up."
    )
    show.say("")
    with Client(bed.public(SUBSCRIBER)) as client, client.subscribe(WANTED) as notifications:
        screen.line(show.console, subscribe.header(), "bold")
        story.step(f"Be told: whenever humidity rises or falls fast on floor {FLOOR[-1]}")
        late_ms = _follow(notifications, show, story)
    show.say(_summary(late_ms))
    _show_round(bed, show)
    return late_ms


def _show_round(bed: Testbed, show: DemoScreen) -> None:
    """Start a watch on the next of these alerts, and show the readings around it."""
    show.say("")
    words = (
        f"{FLOOR}: event, on {WANTED}: the next such alert asks, at once, for the seconds before"
    )
    screen.line(show.console, words, style="bold")
    with (
        Client(bed.public(SUBSCRIBER)) as client,
        client.watch(
            [FLOOR],
            style="event",
            on=WANTED,
            interval_s=1.0,
            window_s=3.0,
            lasting_s=PATIENCE_S,
            service="humidity",
            form="aggregate",
        ) as rounds,
    ):
        each = next(rounds, None)
        if each is None:
            show.say(_summary([]))
            return
        now_s = time.time()
        for text in watch.round_lines(each, now_s):
            screen.line(show.console, text)
        took_ms = now_s * 1e3 - each.end_ms
        show.say(f"{took_ms:.0f} ms from the alert's reading to all of these at {SUBSCRIBER}.")


def _picture(overlay: OverlayPlan, show: DemoScreen) -> None:
    table = screen.plain_table("", *(f"cluster {index}" for index in range(overlay.clusters)))
    for vertex in overlay.scot.vertices:
        region = overlay.scot.region(vertex)
        table.add_row(f"vertex {vertex}", *(overlay.iads[each] for each in region))
    screen.show_table(show.console, table)


def _follow(notifications: Notifications, show: DemoScreen, story: Story) -> list[float]:
    late_ms: list[float] = []
    begun_s = time.monotonic()
    while len(late_ms) < MAX_SHOWN:
        end_s = begun_s + (SHOWN_FOR_S if late_ms else PATIENCE_S)
        each = notifications.wait(max(0.0, end_s - time.monotonic()))
        now_s = time.time()
        if each is None:
            break
        drawn = subscribe.alert_line(each, now_s, 0.0)
        if isinstance(each, Notified):
            late_ms.append(round(now_s * 1e3 - each.notification.time_ms, 1))
            story.say(_told(each, late_ms[-1]))
        screen.line(show.console, drawn)
    if not late_ms:
        story.say(_summary(late_ms))
    return late_ms


def _told(alert: Notified, late_ms: float) -> str:
    """An alert in plain words."""
    found = alert.notification.attributes
    does = "rises" if found.get("kind") == "raised" else "falls"
    value = found.get("value")
    number = f" {value:.1f} %" if isinstance(value, float) else ""
    return (
        f"{found.get('area')}: humidity {does},{number}; told {format_ms(late_ms)} after it was "
        "measured"
    )


def _summary(late_ms: list[float]) -> str:
    if not late_ms:
        return f"No alert came in {PATIENCE_S:g} s."
    return "+ in the first column: from the reading that did it to the subscriber."
