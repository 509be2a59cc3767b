"""What a real master tells of its areas: names from its configuration, and triggers as they are
raised and cleared, also after it was killed."""

import signal
import threading

from agent.client import Client
from agent.wire.base import TRIGGER_CLEARED, TRIGGER_RAISED
from agent.wire.node_messages import NodeEvent, NodeEvents, Subtask
from testkit.waiting import wait_until

AREA = "b1/f4/r1"


def tell(node, sequence, kind):
    event = NodeEvent(
        sequence, kind, 1_000, True, "s", "temperature", "temperature > 30", "hot", 31.5, (AREA,)
    )
    node.send(NodeEvents(node.hello.incarnation, node.hello.history, (event,)))


def raised(client):
    [found] = client.about().results
    return [(each.trigger, each.since_ms, each.text) for each in found.about.raised]


def serve(node):
    """Answer the next subtask; the acknowledgement of an event may come before it."""
    while not isinstance(message := node.receive(), Subtask):
        pass
    node.answer(message)


def test_names_and_raised_triggers(master, join):
    master.stop()
    with master.config.open("a") as file:
        file.write(f'[iad.rooms]\n"{AREA}" = "Küche 4.1"\n')
    master.start()
    node = join(master, areas=(AREA,))
    with Client(master.public) as client:
        [found] = client.about().results
        assert (found.area, found.name, found.about.raised) == (AREA, "Küche 4.1", ())
        tell(node, 1, TRIGGER_RAISED)
        hot = [("hot", 1_000, "temperature > 30")]
        wait_until(lambda: raised(client), lambda found: found == hot)
        serving = threading.Thread(target=serve, args=(node,))
        serving.start()
        [result] = client.query([AREA], last_s=60.0, latency_ms=30_000.0, form="aggregate").results
        serving.join()
        assert (result.name, result.aggregate is None) == ("Küche 4.1", False)
    master.stop(signal.SIGKILL)
    master.start()
    again = join(master, areas=(AREA,))
    with Client(master.public) as client:
        assert raised(client) == hot
        tell(again, 2, TRIGGER_CLEARED)
        wait_until(lambda: raised(client), lambda found: found == [])
