"""One sample of every message, for golden frames and schema tests."""

from agent.wire import directory as directory_messages
from agent.wire import node_messages, unions
from tests.wire.samples import (
    clones,
    data_plane,
    directory,
    handover,
    leases,
    market,
    membership,
    operator,
    overlay,
    placement,
    push,
    topics,
    watches,
)

SAMPLES = {
    **data_plane.SAMPLES,
    **operator.SAMPLES,
    **market.SAMPLES,
    **directory.SAMPLES,
    **watches.SAMPLES,
    **push.SAMPLES,
    **overlay.SAMPLES,
    **clones.SAMPLES,
    **topics.SAMPLES,
    **placement.SAMPLES,
    **membership.SAMPLES,
    **handover.SAMPLES,
    **leases.SAMPLES,
}
UNIONS = (
    unions.PublicRequest,
    unions.PublicReply,
    node_messages.NodeMessage,
    node_messages.MasterMessage,
    unions.OperatorRequest,
    unions.OperatorReply,
    directory_messages.DirectoryRequest,
    directory_messages.DirectoryReply,
)
