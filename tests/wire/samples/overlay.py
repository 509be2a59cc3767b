"""Links of the overlay, and what goes over them."""

from agent.wire import overlay as o
from agent.wire import overlay_links as l
from agent.wire.base import Message
from agent.wire.predicates import Predicate

ORIGIN = o.Origin("iad1", "4f1d2a", 7_340_033)
NOTIFICATION = o.Notification(
    ORIGIN,
    1_377_298_800_000,
    {
        "iad": "iad1",
        "kind": "raised",
        "trigger": "hot",
        "metric": "temperature",
        "area": "b1/f4/r413",
        "value": 31.5,
    },
)
FILTER = ((Predicate("area", "under", ("b1/f4",)), Predicate("value", ">", (30.0,))),)
CARRIED: dict[str, o.OverlayMessage] = {
    "subscription_change": o.SubscriptionChange("v2", 17, 3, 1, FILTER),
    "subscription_part": o.SubscriptionPart("v2", 17, 3, 0, 1, ((1, FILTER),)),
    "subscription_versions": o.SubscriptionVersions((o.HomeVersion("v2", 17, 3),), True),
    "advertisement_change": o.AdvertisementChange(17, 2, 1),
    "advertisement_part": o.AdvertisementPart(17, 2, 0, 1, ((1, FILTER),)),
    "advertisement_version": o.AdvertisementVersion(17, 2),
    "cib_set": o.CibSet(17, 1, (9, 4)),
    "cib_clear": o.CibClear(17, 1, (9, 5)),
    "cib_state": o.CibState(17, (1,), (2, 3), (9, 6)),
    "notify": o.Notify(NOTIFICATION, b"\x05"),
    "have": o.Have((o.Kept(ORIGIN, b"\x01"),)),
    "relay": o.Relay(("v1", 0), (("v1", 1), ("v2", 1)), 0, o.Notify(NOTIFICATION, b"")),
    "no_way": o.NoWay(("v1", 0), (("v1", 1), ("v2", 1)), 0, -1, o.Notify(NOTIFICATION, b"")),
}
SAMPLES: dict[str, Message] = {
    "overlay_hello": l.OverlayHello(
        "iad1", "v1", 0, "0123456789abcdef", 4_503_599_627_370_497, 0, False
    ),
    "overlay_beat": l.OverlayBeat(4_503_599_627_370_497, 12, 7),
    "overlay_refused": l.OverlayRefused("this master's overlay has other links"),
    **{
        f"overlay_frame_{name}": l.OverlayFrame(4_503_599_627_370_497, number, message)
        for number, (name, message) in enumerate(CARRIED.items(), 1)
    },
}
