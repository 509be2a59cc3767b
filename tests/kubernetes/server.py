"""A real kube-apiserver with its etcd on this host, without the rest of a cluster."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fleet.testbed.ports import free_ports
from testkit.waiting import wait_until

BIN = Path(__file__).parents[2] / "var" / "kubernetes" / "bin"
TOKENS = {"master": "token-of-master", "guest": "token-of-guest", "admin": "token-of-admin"}
STARTING_S = 120.0
# What a master needs, and no more; docs/run/kubernetes.md shows the same.
RULES: list[dict[str, Any]] = [
    {
        "apiGroups": ["apps"],
        "resources": ["deployments"],
        "verbs": ["list", "create", "update", "delete"],
    },
    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["patch"]},
]


class Server(NamedTuple):
    """A server that answers, and what a client needs for it."""

    address: str
    certificate: Path
    log: Path

    def client(self, user: str) -> Any:
        """An `ApiClient` of the official client for one of `TOKENS`."""
        from kubernetes import client

        settings = client.Configuration(host=self.address)
        settings.ssl_ca_cert = str(self.certificate)
        settings.api_key = {"authorization": f"Bearer {TOKENS[user]}"}
        settings.retries = False
        return client.ApiClient(settings)


@contextmanager
def running_server() -> Iterator[Server]:
    """Start both, wait until the server is ready, stop both."""
    with tempfile.TemporaryDirectory(prefix="sanderling-kubernetes-") as name, ExitStack() as stack:
        folder = Path(name)
        etcd = f"http://127.0.0.1:{free_ports(1)[0]}"
        peers = f"http://127.0.0.1:{free_ports(1)[0]}"
        _start(
            stack,
            folder / "etcd.log",
            BIN / "etcd",
            {
                "name": "test",
                "data-dir": folder / "etcd",
                "listen-client-urls": etcd,
                "advertise-client-urls": etcd,
                "listen-peer-urls": peers,
                "initial-advertise-peer-urls": peers,
                "initial-cluster": f"test={peers}",
                "unsafe-no-fsync": "true",
            },
        )
        _make_keys(folder)
        port = free_ports(1)[0]
        process = _start(
            stack,
            folder / "apiserver.log",
            BIN / "kube-apiserver",
            {
                "etcd-servers": etcd,
                "bind-address": "127.0.0.1",
                "secure-port": port,
                "cert-dir": folder,
                "tls-cert-file": folder / "server.crt",
                "tls-private-key-file": folder / "server.key",
                "token-auth-file": folder / "tokens.csv",
                "authorization-mode": "RBAC",
                "service-account-issuer": "https://kubernetes.default.svc",
                "service-account-key-file": folder / "server.key",
                "service-account-signing-key-file": folder / "server.key",
                "service-cluster-ip-range": "10.0.0.0/24",
            },
        )
        server = Server(
            f"https://127.0.0.1:{port}", folder / "server.crt", folder / "apiserver.log"
        )
        _await_ready(server, process)
        _set_up(server)
        yield server


def _await_ready(server: Server, process: subprocess.Popen[bytes]) -> None:
    from kubernetes import client
    from urllib3.exceptions import HTTPError

    core = client.CoreV1Api(server.client("admin"))

    def is_ready() -> bool:
        try:
            core.read_namespace("default")  # the last that the server makes for itself
        except (HTTPError, client.ApiException):
            return False
        return True

    try:
        wait_until(is_ready, processes=[process], patience_s=STARTING_S, pause_s=0.2)
    except AssertionError:
        raise RuntimeError(f"no kube-apiserver:\n{server.log.read_text()[-3_000:]}") from None


def _set_up(server: Server) -> None:
    """The namespace, and the rights of the user `master` in it."""
    from kubernetes import client

    api_client = server.client("admin")
    client.CoreV1Api(api_client).create_namespace({"metadata": {"name": "sanderling"}})
    rights = client.RbacAuthorizationV1Api(api_client)
    group, named = "rbac.authorization.k8s.io", {"metadata": {"name": "sanderling-master"}}
    rights.create_namespaced_role("sanderling", {**named, "rules": RULES})
    rights.create_namespaced_role_binding(
        "sanderling",
        {
            **named,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "sanderling-master"},
            "subjects": [{"kind": "User", "name": "master", "apiGroup": group}],
        },
    )


def _make_keys(folder: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
            *("-keyout", folder / "server.key", "-out", folder / "server.crt"),
        ],
        check=True,
        capture_output=True,
    )
    groups = {"admin": "system:masters"}
    lines = [
        f"{token},{user},{user},{groups.get(user, 'sanderling')}" for user, token in TOKENS.items()
    ]
    (folder / "tokens.csv").write_text("\n".join(lines) + "\n")


def _start(
    stack: ExitStack, log: Path, program: Path, options: dict[str, Any]
) -> subprocess.Popen[bytes]:
    file = stack.enter_context(log.open("wb"))
    command = [str(program), *(f"--{name}={value}" for name, value in options.items())]
    process = subprocess.Popen(command, stdout=file, stderr=file)
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
