"""One fleet for all scenarios of this folder; each leaves it as it should be."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from fleet.inventory.folder import Folder
from testkit import releases
from testkit.root_file_system import ROOT
from tests.hosts.results import Results
from tests.hosts.site import Site, missing
from tests.hosts.testbed import Testbed

FOLDER = ROOT / "var/hosts"


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """Hosts with bare Debian and the keys of a fleet."""
    if reason := missing():
        pytest.skip(reason)
    if (FOLDER / "hosts/testbed.json").exists():
        Testbed.found(FOLDER).down()
    shutil.rmtree(FOLDER, ignore_errors=True)
    # What ends this run is to leave no hosts behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    bed = Testbed(FOLDER)
    bed.write_folder()
    releases.bring(Folder(FOLDER))
    made = Site(bed, Results())
    try:
        made.init()
        yield made
    finally:
        made.close()
    if os.environ["SANDERLING_HOSTS"] == "results":
        made.results.write()


@pytest.fixture(scope="session")
def first(site):
    """How the first deployment went."""
    return site.deploy_first()


@pytest.fixture
def fleet(site, first):
    """The fleet, deployed and healthy; it has to be so again after the test."""
    assert first.status == 0, first
    site.mend()
    yield site
    site.desk.kill_commands()  # a test that failed waits for none
    site.assert_healthy()
