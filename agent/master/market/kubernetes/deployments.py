"""Desired and observed Deployments, and the operations that reconcile them. Pure.

Each edge node that needs pods has one Deployment, bound to the node's host: its pods serve the
subtasks of all services, as a node's pods do everywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from agent.wire.pods_config import MasterPods

APP: Final = "sanderling-pod"
# Fingerprint of the description without the number of pods: a Deployment with another one is
# updated.
FINGERPRINT: Final = "sanderling/description"
# With the suffix that a cluster adds for each container, a host name may have 63 characters.
MAX_NAME_PART: Final = 20

Manifest = dict[str, Any]


class Observed(NamedTuple):
    """A Deployment as observed in the cluster; `ready` of its `replicas` serve."""

    name: str
    node: str
    replicas: int
    ready: int
    fingerprint: str


class Delete(NamedTuple):
    """That node needs no pods any more, or was never one of ours."""

    name: str
    node: str


class Scale(NamedTuple):
    """Change the number of pods."""

    name: str
    node: str
    replicas: int


class Replace(NamedTuple):
    """The configuration changed: another description under the same name."""

    name: str
    node: str
    manifest: Manifest


class Create(NamedTuple):
    """A node's first pods."""

    name: str
    node: str
    manifest: Manifest


Operation = Delete | Scale | Replace | Create


class Blueprint:
    """The template of one IAD's Deployments."""

    def __init__(self, iad: str, config: MasterPods) -> None:
        self.iad = iad
        self.namespace = config.namespace
        self._config = config

    @property
    def selector(self) -> str:
        """Label selector of this IAD's Deployments."""
        return f"app={APP},iad={self.iad}"

    def name(self, node: str) -> str:
        """The Deployment's name: readable, and different for each (IAD, node).

        Names of IADs and nodes may have capitals and underscores, Kubernetes' may not.
        """
        plain = re.sub(r"[^a-z0-9]+", "-", node.lower())[:MAX_NAME_PART].strip("-")
        digest = hashlib.sha256(f"{self.iad}\n{node}".encode()).hexdigest()[:10]
        return "-".join(part for part in (APP, plain, digest) if part)

    def fingerprint(self, node: str) -> str:
        """Changes with everything in the description but the number of pods."""
        encoded = msgspec.json.encode(self._spec(node), order="sorted")
        return hashlib.sha256(encoded).hexdigest()[:16]

    def manifest(self, node: str, replicas: int) -> Manifest:
        """The whole Deployment (apps/v1)."""
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": self.name(node),
                "namespace": self.namespace,
                "labels": self._labels(node),
                "annotations": {FINGERPRINT: self.fingerprint(node)},
            },
            "spec": {"replicas": replicas, **self._spec(node)},
        }

    def _labels(self, node: str) -> dict[str, str]:
        return {"app": APP, "iad": self.iad, "node": node}

    def _spec(self, node: str) -> Manifest:
        resources = {"cpu": self._config.cpu, "memory": self._config.memory}
        return {
            "selector": {"matchLabels": self._labels(node)},
            "template": {
                "metadata": {"labels": self._labels(node)},
                "spec": {
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "pod",
                            "image": self._config.image,
                            "command": ["sanderling-pod"],
                            "env": [{"name": "SANDERLING_DIRECTORY", "value": "/node"}],
                            # Ready while the node's agent accepts containers.
                            "readinessProbe": {
                                "exec": {"command": ["test", "-S", "/node/pods.sock"]},
                                "periodSeconds": 5,
                            },
                            "resources": {"requests": resources, "limits": resources},
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "readOnlyRootFilesystem": True,
                            },
                            "volumeMounts": [
                                {"name": "node", "mountPath": "/node", "readOnly": True}
                            ],
                        }
                    ],
                    "volumes": [
                        {
                            "name": "node",
                            "hostPath": {"path": self._config.directory, "type": "Directory"},
                        }
                    ],
                },
            },
        }


def operations(
    wanted: Mapping[str, int], observed: Iterable[Observed], blueprint: Blueprint
) -> list[Operation]:
    """The operations from `observed` to `wanted` (pods by node), those that free resources first.

    None if they agree: applying the result twice changes nothing. O(n log n).
    """
    there = {deployment.name: deployment for deployment in observed}
    needed: list[Operation] = []
    for node, replicas in sorted(wanted.items()):
        name = blueprint.name(node)
        deployment = there.pop(name, None)
        if deployment is None:
            needed.append(Create(name, node, blueprint.manifest(node, replicas)))
        elif deployment.fingerprint != blueprint.fingerprint(node):
            needed.append(Replace(name, node, blueprint.manifest(node, replicas)))
        elif deployment.replicas > replicas:
            needed.insert(0, Scale(name, node, replicas))
        elif deployment.replicas < replicas:
            needed.append(Scale(name, node, replicas))
    return [*(Delete(name, there[name].node) for name in sorted(there)), *needed]
