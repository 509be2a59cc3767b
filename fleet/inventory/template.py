"""The commented `fleet.toml` that `fleet init` writes; it is valid as written."""

from __future__ import annotations

import ipaddress
from typing import Final

HEAD: Final = """\
# The fleet {name}: its IADs, masters and edge nodes. Keys that are commented out show their
# defaults or an example; docs/run/configuration.md has them all.
# After a change: fleet inventory check
name = "{name}"

# On an overlay of their masters alerts reach subscribers in other IADs: so many clusters, with an
# IAD in each (docs/run/inventory.md).
# overlay = {{ clusters = 1 }}

# How hosts are logged in to. `fleet keys init` makes the SSH key, and a host key for every host.
[ssh]
user = "fleet"          # may use sudo without a password
# port = 22
# connect_s = 10.0      # a host that is silent for so long is dead

# Hosts in a network of their own are reached through a machine, as with ssh -J. An IAD names it.
# [[jump]]
# name = "barn"
# address = "barn.example.com"

# Which release of Sanderling runs. Without a pin it is the one built from these sources.
[releases]
keep = 3                # on each host, for `fleet rollback`
# pin = "0.1.0-3f9c2a1b"

# What people call the rooms; answers show it beside the path.
# [rooms]
# "b1/f1/r1" = "Meeting 1.1"

# People and applications with keys of their own.
# [[person]]
# name = "app"
# roles = ["client"]    # client: sends queries; operator: sees an IAD's state
# rate_per_s = 50
# ssh_keys = []         # public keys that may log in to every host

# What several nodes have in common. What a node says itself goes before it.
[[group]]
name = "sensing"

[[group.sensor]]
driver = "synthetic"    # readings without hardware
interval_s = 1.0

# A DHT22 on GPIO 4 instead (sensors/dht/README.md):
# [[group.sensor]]
# driver = "dht"
# interval_s = 2.5
# options = {{ model = "dht22", pin = "D4" }}

# What is told at once to who runs `fleet subscribe` (docs/use/triggers.md):
# [[group.trigger]]
# name = "hot"
# condition = "temperature > 30"

# A rollout begins with a node of this group, and goes on if that is well.
[[group]]
name = "canary"
canary = true
"""

IAD: Final = """
# An IAD: a master and its edge nodes. Add another [[iad]] for the next.
[[iad]]
name = "{iad}"
# jump = "barn"
# areas = ["b1"]        # what it offers; left out: the areas of its nodes
# overlay = {{ vertex = "all", cluster = 0 }}    # its place there

[iad.master]
{master}
# public_port = 5700    # for clients and other masters
# nodes_port = 5701
# operator_port = 5702

# Alerts are posted there (docs/use/webhooks.md); `fleet keys init` makes the secret.
# [[iad.master.webhook]]
# name = "pager"
# url = "https://pager.example.com/hooks/4711"
# filter = 'kind = "raised"'
"""

REMOTE: Final = 'address = "{address}"    # for nodes, clients, other masters and SSH'
LOCAL: Final = """\
local = true            # it runs on this machine, in masters/{iad}
address = "{address}"    # this machine's, as nodes reach it
# nodes_address = "10.0.2.2"    # if nodes reach it elsewhere, as QEMU's guests do"""

NODE: Final = """
[[iad.node]]
name = "n{number}"
address = "{address}"
areas = ["b1/f1/r{number}"]
model = "pi4"{comment}
groups = [{groups}]
"""
MODELS: Final = "           # or pi3, zero2w; host: any other machine with Debian"
FIRST_ADDRESS: Final = ipaddress.IPv4Address("192.168.1.10")


def template(name: str, iad: str, nodes: int, *, local_master: bool) -> str:
    """An inventory of one IAD; its addresses are examples."""
    master = (LOCAL if local_master else REMOTE).format(iad=iad, address=FIRST_ADDRESS)
    text = HEAD.format(name=name) + IAD.format(iad=iad, master=master)
    for number in range(1, nodes + 1):
        groups = '"sensing", "canary"' if number == 1 else '"sensing"'
        text += NODE.format(
            number=number,
            address=FIRST_ADDRESS + number,
            groups=groups,
            comment=MODELS if number == 1 else "",
        )
    return text
