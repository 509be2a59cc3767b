"""Configuration of a master's pods: how many a node may have, and what runs them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from agent.wire.config import Count, File, Section

# A Kubernetes resource quantity, without its rarer forms.
Quantity = Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,8}(m|k|M|G|Ki|Mi|Gi)?$(?!\n)")]


class MasterPods(Section, frozen=True):
    """The provisioner of pods."""

    provisioner: Annotated[
        Literal["local", "kubernetes"],
        Meta(description="local: the edge agent's threads; kubernetes: a Deployment per node."),
    ] = "local"
    most: Annotated[Count, Meta(le=256, description="Pods that a node may have.")] = 8
    namespace: Annotated[str, Meta(description="Kubernetes namespace.")] = "sanderling"
    image: Annotated[str, Meta(description="Container image of a pod.")] = "sanderling-pod:latest"
    kubeconfig: Annotated[
        File, Meta(description="Kubernetes client configuration; empty: the usual places.")
    ] = ""
    directory: Annotated[
        str,
        Meta(
            pattern=r"^/[^\x00:]*$",
            max_length=4_096,
            description="Folder of the history on each node's host; a container sees it as /node, "
            "read-only.",
        ),
    ] = "/var/lib/sanderling"
    cpu: Annotated[
        Quantity, Meta(description="Processor time that a pod's container gets, such as 250m.")
    ] = "250m"
    memory: Annotated[
        Quantity, Meta(description="Memory that a pod's container may use, such as 64Mi.")
    ] = "64Mi"
