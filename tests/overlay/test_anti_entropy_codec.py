"""Messages about tables, and what they say of a set: the same in both directions."""

import pytest

from agent.overlay.anti_entropy import Delta, SnapshotPart
from agent.overlay.anti_entropy_codec import (
    advertisement_update,
    fits,
    replica,
    subscription_update,
)
from agent.wire.overlay import (
    AdvertisementChange,
    AdvertisementPart,
    SubscriptionChange,
    SubscriptionPart,
)
from agent.wire.predicates import Predicate
from tests.overlay.world import EVERYTHING, between

WARM = between(3, 4)
LARGE = ((Predicate("y", "=", ("w" * 8_192,)),),)


@pytest.mark.parametrize(
    ("home", "message", "told"),
    [
        ("v", SubscriptionChange("v", 7, 3, 2, WARM), Delta("v", (7, 3), 2, WARM)),
        ("v", SubscriptionChange("v", 7, 4, 2), Delta("v", (7, 4), 2, None)),
        (
            "v",
            SubscriptionPart("v", 7, 9, 1, 3, ((4, WARM), (5, EVERYTHING))),
            SnapshotPart("v", (7, 9), 1, 3, ((4, WARM), (5, EVERYTHING))),
        ),
        (1, AdvertisementChange(7, 3, 2, WARM), Delta(1, (7, 3), 2, WARM)),
        (1, AdvertisementChange(7, 4, 2), Delta(1, (7, 4), 2, None)),
        (
            1,
            AdvertisementPart(7, 9, 1, 3, ((4, WARM),)),
            SnapshotPart(1, (7, 9), 1, 3, ((4, WARM),)),
        ),
    ],
)
def test_a_message_and_what_it_says(home, message, told):
    assert replica(home, message) == told
    assert (subscription_update if home == "v" else advertisement_update)(told) == message


def test_an_update_fits_if_each_filter_does():
    assert fits(Delta("v", (7, 3), 2, WARM))
    assert fits(Delta("v", (7, 3), 2, None))
    assert not fits(Delta("v", (7, 3), 2, LARGE))
    assert fits(SnapshotPart("v", (7, 9), 0, 2, ((4, WARM), (5, WARM))))
    assert not fits(SnapshotPart("v", (7, 9), 0, 2, ((4, WARM), (5, LARGE))))
