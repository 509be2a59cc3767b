"""Trade: what a master needs in the market, and the pods that it sells."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from agent.directory.registrar_events import Registrant
from agent.master.market.autoscale_plane import AutoscalePlane
from agent.master.market.control_plane import ControlPlane
from agent.master.market.directory_link import DirectoryLink
from agent.master.market.provisioning import LocalProvisioner, PodTable, Provisioner
from agent.master.recording.records import Records
from agent.master.requests.operator_plane import OperatorPlane
from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.storage.state import State
from agent.net.secure_sockets import SecureSockets
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.directory import Offering
from agent.wire.master_config import MasterConfig


class Trade:
    """Connects buyer, seller and auto-scaler to the provider of `pods` and, if the configuration
    names one, to a `directory`."""

    def __init__(
        self,
        reactor: Reactor,
        config: MasterConfig,
        folder: Path,
        secure_sockets: SecureSockets,
        state: State,
        records: Records,
        public: PublicPlane,
        peers: Peers,
        operator: OperatorPlane,
        queries: QueryScheduler,
        tasks: TaskScheduler,
        *,
        run: str,
        say: Say,
    ) -> None:
        self.pods = _provisioner(reactor, config, folder, state, tasks)
        if config.autoscale.enabled:
            AutoscalePlane(reactor, config, records, tasks, self.pods, say)
        keys = secure_sockets.public_keys
        self.directory = _directory(reactor, config, secure_sockets, keys, say)
        ControlPlane(
            reactor,
            config,
            state,
            public,
            peers,
            operator,
            self.directory,
            queries,
            tasks,
            self.pods,
            run=run,
            say=say,
            keys=keys,
            secure_sockets=secure_sockets,
        )


def _directory(
    reactor: Reactor,
    config: MasterConfig,
    secure_sockets: SecureSockets,
    keys: tuple[str, ...],
    say: Say,
) -> DirectoryLink | None:
    market = config.market
    if not market.directories:
        return None
    offerings = tuple([Offering(offered.capability, offered.areas) for offered in config.offers])
    registrant = Registrant(
        config.iad.name, market.role, config.sockets.reached_at, offerings, keys
    )
    return DirectoryLink(
        reactor,
        secure_sockets,
        market.directories,
        market.directory_keys,
        registrant,
        lease_s=market.lease_s,
        say=say,
    )


def _provisioner(
    reactor: Reactor, config: MasterConfig, folder: Path, state: State, tasks: TaskScheduler
) -> Provisioner:
    pods = config.pods
    table = PodTable(state, pods.most)
    if pods.provisioner == "local":
        return LocalProvisioner(reactor, tasks, table)
    # The official client takes 30 MiB.
    from agent.master.market.kubernetes.provisioner import KubernetesProvisioner

    if pods.kubeconfig:
        pods = replace(pods, kubeconfig=str(folder / pods.kubeconfig))
    return KubernetesProvisioner(reactor, tasks, table, pods, config.iad.name)
