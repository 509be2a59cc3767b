"""Clients of a master: sensing queries, watches, subscriptions, messages to topics; state and
policy for operators."""

from agent.client.client import Client
from agent.client.connection import ConnectionCutError, NoReplyError
from agent.client.operator import Operator
from agent.client.other_peers import OtherPeerError
from agent.client.publishing import PublishError
from agent.client.subscriptions import Notifications, SubscriptionError, UnknownLoss
from agent.client.watches import Rounds, WatchError

__all__ = [
    "Client",
    "ConnectionCutError",
    "NoReplyError",
    "Notifications",
    "Operator",
    "OtherPeerError",
    "PublishError",
    "Rounds",
    "SubscriptionError",
    "UnknownLoss",
    "WatchError",
]
