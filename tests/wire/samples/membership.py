"""Where masters tell each other that masters are."""

from agent.wire import membership as m
from agent.wire.base import Message

SAMPLES: dict[str, Message] = {
    "members": m.Members(
        "iad1",
        "tcp://10.1.20.1:5700",
        view=True,
        needs=True,
        known=(m.MemberAddress("iad2", "tcp://10.1.20.2:5700", 70_000),),
    ),
    "members_bare": m.Members("iad1", "tcp://10.1.20.1:5700"),
}
