"""Hosts from which a master without keys accepts the market's messages."""

from __future__ import annotations

from typing import Final

from agent.wire.master_config import MasterConfig

# In the form of `Sender.host`: over loopback, and through a socket file.
THIS_HOST: Final = frozenset({"127.0.0.1", ""})


def counterparty_hosts(config: MasterConfig) -> frozenset[str] | None:
    """The hosts of the directories and of the other masters in the configuration; without any, this
    host only or none. None: keys authenticate senders, wherever they are."""
    if config.trust.key:
        return None
    others = [member for member in config.pool if member.iad != config.iad.name]
    return THIS_HOST if config.market.directories or others else frozenset()
