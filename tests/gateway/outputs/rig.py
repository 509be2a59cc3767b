"""What outputs are made with, in a test's hands."""

from agent.gateway.feed.alert_log import AlertLog
from agent.gateway.feed.raised import raised_now
from agent.gateway.feed.rooms import Reading, Room
from agent.gateway.outputs.base import Sources
from tests.gateway.samples import notification

UNITS = {"temperature": "°C", "humidity": "%"}


def room(area, *, state="live", name="", at_ms=1_000, quality="good", **values):
    readings = {
        channel: Reading(value, at_ms, "bad" if value is None else quality, UNITS.get(channel, ""))
        for channel, value in values.items()
    }
    return Room(area, name, state, "", readings)


class Rooms:
    """As the hub, without a fleet."""

    def __init__(self, alerts):
        self._alerts = alerts
        self._rooms = {}
        self.listeners = []

    def listen(self, listener):
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def all_rooms(self):
        return list(self._rooms.values())

    def name_of(self, area):
        return self._rooms[area].name if area in self._rooms else ""

    def raised(self):
        return raised_now(self._alerts.triggers, None)

    def show(self, *rooms):
        self._rooms |= {each.area: each for each in rooms}
        for listener in self.listeners:
            listener(rooms)


class Rig:
    """Sources, and what was said to the operator. A log that is opened again goes on."""

    def __init__(self, folder):
        self.folder = folder
        self.said = []
        self.open()

    def open(self):
        self.alerts = AlertLog(self.folder / "alerts.sqlite", self.said.append)
        self.rooms = Rooms(self.alerts)
        self.sources = Sources("home", self.folder, self.rooms, self.alerts, self.said.append)

    def alert(self, number, **told):
        return self.alerts.append(notification(number, **told))

    def secret(self, name, text):
        path = self.folder / name
        path.write_text(f"{text}\n")
        path.chmod(0o600)
        return name

    def close(self):
        self.alerts.close()
