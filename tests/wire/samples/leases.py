"""What masters tell each other of who is alive."""

from agent.wire.base import Message
from agent.wire.leases import LeaseTold

SAMPLES: dict[str, Message] = {
    "lease_renew": LeaseTold("iad1", "renew", 2, 1_377_298_800, 4_711.5),
    "lease_granted": LeaseTold("iad2", "granted", 2, 1_377_298_800, 4_711.5),
    "lease_judge": LeaseTold("iad2", "judge", 2, master="iad1"),
    "lease_over": LeaseTold("iad2", "over", 2, master="iad1"),
}
