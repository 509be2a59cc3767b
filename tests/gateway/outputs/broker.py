"""A broker in a test's hands: what it retains, and what it still has to confirm."""

from agent.gateway.outputs.mqtt_events import Publish


class FakeBroker:
    """Messages arrive in order, and are confirmed in order, each when the test says so."""

    def __init__(self) -> None:
        self.retained: dict[str, bytes] = {}
        self.came: list[Publish] = []
        self.on_the_way: list[Publish] = []
        self.to_confirm: list[Publish] = []

    def take(self, message: Publish) -> None:
        """The client has sent it."""
        self.on_the_way.append(message)

    def arrive(self, count: int) -> None:
        """The next ones arrive."""
        for message in self.on_the_way[:count]:
            self.came.append(message)
            self.to_confirm.append(message)
            if message.retain:
                self.retained[message.topic] = message.payload
                if not message.payload:
                    del self.retained[message.topic]
        del self.on_the_way[:count]

    def cut(self) -> None:
        """What did not arrive is lost; nothing more is confirmed."""
        self.on_the_way.clear()
        self.to_confirm.clear()

    def of(self, kind: str) -> list[Publish]:
        """What came on topics of this kind."""
        return [each for each in self.came if each.topic.split("/")[2:3] == [kind]]
