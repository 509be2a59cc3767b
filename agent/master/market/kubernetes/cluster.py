"""Kubernetes API access through the official client: lists Deployments, carries out operations.

The client is synchronous and large (tens of megabytes with its imports): it is imported when a
cluster is opened, and called from the reconciler's thread only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import msgspec

from agent.master.market.kubernetes.deployments import (
    FINGERPRINT,
    Blueprint,
    Create,
    Delete,
    Observed,
    Operation,
    Replace,
    Scale,
)
from agent.runtime.printable import one_line
from agent.wire.config import ConfigError

TIMEOUT_S: Final = (5.0, 15.0)  # to connect, to answer
MAX_MESSAGE: Final = 400
NOT_FOUND: Final = 404
# 401: credentials are renewed. 409: the object changed meanwhile; the next look sees it.
TEMPORARY: Final = frozenset({401, 408, 409, 429})


class ClusterError(Exception):
    """A request that failed; one line."""


class Refused(ClusterError):
    """It will fail again until a configuration, permissions or names change."""


class TryAgain(ClusterError):
    """This request may succeed later; others may succeed now."""


class Unreachable(ClusterError):
    """No answer at all: further requests are pointless."""


def open_client(kubeconfig: str) -> Any:
    """The client's `ApiClient` for that file, or for the usual places if it is empty.

    Those are: the pod that the master runs in, else $KUBECONFIG and ~/.kube/config. ConfigError in
    one line if the client is not installed or finds no usable configuration.
    """
    try:
        from kubernetes import client, config
    except ImportError:
        raise ConfigError(
            "pods.provisioner: kubernetes needs the official client: in a checkout, run "
            "pip install '.[kubernetes]'"
        ) from None
    settings = client.Configuration()
    load: Any = config  # its functions have no types
    try:
        if not kubeconfig and "KUBERNETES_SERVICE_HOST" in os.environ:
            load.load_incluster_config(client_configuration=settings)
        else:
            load.load_kube_config(
                kubeconfig or None, client_configuration=settings, persist_config=False
            )
    # What a broken file raises is not limited to the client's own exceptions.
    except Exception as error:  # noqa: BLE001
        where, why = kubeconfig or "the usual places", one_line(str(error), MAX_MESSAGE)
        raise ConfigError(f"pods.kubeconfig: no usable configuration in {where}: {why}") from None
    settings.retries = False  # the reconciler retries, and lists the state anew before it does
    return client.ApiClient(settings)


class Cluster:
    """The Deployments of one IAD; every method calls the server and raises ClusterError."""

    def __init__(self, blueprint: Blueprint, api_client: Any) -> None:
        from kubernetes import client
        from urllib3.exceptions import HTTPError

        self._blueprint = blueprint
        self._apps = client.AppsV1Api(api_client)
        self._api_exception: type[Exception] = client.ApiException
        self._http_error: type[Exception] = HTTPError

    def deployments(self) -> list[Observed]:
        """All of this IAD, desired or not."""
        found = self._ask(
            self._apps.list_namespaced_deployment,
            self._blueprint.namespace,
            label_selector=self._blueprint.selector,
        )
        return [_observed(deployment) for deployment in found.items]

    def perform(self, operation: Operation) -> None:
        """Carry out one operation; deleting an object that is gone succeeds."""
        apps, namespace = self._apps, self._blueprint.namespace
        match operation:
            case Create(manifest=manifest):
                self._ask(apps.create_namespaced_deployment, namespace, manifest)
            case Replace(name, manifest=manifest):
                self._ask(apps.replace_namespaced_deployment, name, namespace, manifest)
            case Scale(name, replicas=replicas):
                self._ask(
                    apps.patch_namespaced_deployment_scale,
                    name,
                    namespace,
                    {"spec": {"replicas": replicas}},
                    _content_type="application/merge-patch+json",
                )
            case Delete(name):
                self._ask(
                    apps.delete_namespaced_deployment,
                    name,
                    namespace,
                    propagation_policy="Background",
                    missing=None,
                )

    def _ask(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        may_miss = "missing" in options
        options.pop("missing", None)
        try:
            return call(*arguments, _request_timeout=TIMEOUT_S, **options)
        except self._api_exception as error:
            status = getattr(error, "status", None) or 0
            if may_miss and status == NOT_FOUND:
                return None
            kind = TryAgain if status in TEMPORARY or not 400 <= status < 500 else Refused
            raise kind(f"{status}: {_message(error)}") from None
        except (self._http_error, OSError) as error:
            raise Unreachable(one_line(str(error), MAX_MESSAGE)) from None


def _observed(deployment: Any) -> Observed:
    metadata, status = deployment.metadata, deployment.status
    return Observed(
        metadata.name,
        (metadata.labels or {}).get("node", ""),
        deployment.spec.replicas or 0,
        (status.ready_replicas if status else 0) or 0,
        (metadata.annotations or {}).get(FINGERPRINT, ""),
    )


def _message(error: Any) -> str:
    """The message of the server's Status object, else the HTTP reason."""
    try:
        return one_line(str(msgspec.json.decode(error.body or b"")["message"]), MAX_MESSAGE)
    except (msgspec.DecodeError, KeyError, TypeError):
        return one_line(str(error.reason or error), MAX_MESSAGE)
