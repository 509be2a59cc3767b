"""Negotiation and pools."""

from agent.wire import market as m
from agent.wire.base import Message

KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
TERMS = m.Terms(20.0, 99.498743710662, 800.0)
SERVICE = m.Service(
    id="climate",
    owner="iad1",
    version=3,
    members=(
        m.Member("iad1", "tcp://127.0.0.1:5700", ("b1/f4",), (KEY,), 20.0),
        m.Member("portal", "tcp://127.0.0.1:5710"),
    ),
    capability="temperature",
    terms=TERMS,
    redundant=True,
)

SAMPLES: dict[str, Message] = {
    "propose": m.Propose("p1", "climate", "temperature", ("b1/f4",), TERMS),
    "release": m.Release("p1", "climate"),
    "join": m.Join("p2", SERVICE),
    "leave": m.Leave("p3", "climate", 4),
    "offer_accepted": m.Offer("p1", "accepted", hold_s=30.0),
    "offer_countered": m.Offer(
        "p1", "countered", counter=m.Terms(12.0, 99.0, 900.0), message="12 tasks/s at most"
    ),
    "joined": m.Joined("p2", ok=True),
}
