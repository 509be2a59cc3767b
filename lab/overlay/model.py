"""Cost model of the simulation: the operations that take time, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from agent.overlay.events import Instruction, Send
from lab.overlay.contenders import Contender
from lab.overlay.world import AnyBroker, Costs

# A link: 448 kbit/s and 1 ms. A notification takes about 5 ms on it; two hundred a second are an
# eighth of the paper's fastest burst, and at most four times the other publishers' load on a link.
BYTES_PER_S: Final = 56_000.0
DELAY_S: Final = 0.001
# Overhead per message: IP, TCP, ZeroMQ, CURVE.
FRAME_BYTES: Final = 90
# The bottleneck: the bandwidth of all links alike, that of iLinks only (clusters are sites, their
# aLinks a local network of much more bandwidth), or a broker's time. There a message takes a fifth
# of its time on a link, because the inner brokers would otherwise be overloaded without a burst.
Bottleneck = Literal["links", "iLinks", "brokers"]
BOTTLENECKS: Final[tuple[Bottleneck, ...]] = get_args(Bottleneck)
SITE_BANDWIDTH: Final = 10.0
BROKER_PACE: Final = 5.0

encode = msgspec.msgpack.Encoder().encode


def transmission_s(message: Any) -> float:
    """Transmission time of a message, by its size in MessagePack."""
    return (len(encode(message)) + FRAME_BYTES) / BYTES_PER_S


def costs_of(contender: Contender, bottleneck: Bottleneck = "links") -> Costs:
    """Equal for all, except for the times of their own code."""
    event_s, copy_s = contender.event_s, contender.copy_s

    def service(_broker: AnyBroker, _event: Any, instructions: Sequence[Instruction]) -> float:
        copies = 0
        for each in instructions:  # a sum over a generator takes three times as long
            copies += type(each) is Send
        return event_s + copy_s * copies

    if bottleneck == "brokers":
        return Costs(
            service, lambda each: transmission_s(each) / BROKER_PACE, DELAY_S, one_sender=True
        )
    bandwidth = SITE_BANDWIDTH if bottleneck == "iLinks" else 1.0
    return Costs(service, transmission_s, DELAY_S, a_link_bandwidth=bandwidth)
