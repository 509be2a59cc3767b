"""The program that writes files on a host, and local masters' folders."""

import stat

import pytest

from fleet.inventory.files import HostFile
from fleet.inventory.parties import hosts
from fleet.rollout.keys.push import key_files_of, request_of, write_local
from fleet.ssh.errors import HostError
from tests.fleet.keys.rig import inventory, store

SECRET = HostFile("keys/node.secret", b"secret\n", 0o600, "sanderling", False)
PUBLIC = HostFile("keys/master.public", b"public\n", 0o644, "root", False)


def test_the_program_there_is_asked_for_absolute_paths():
    fleet = inventory()
    master, *_ = hosts(fleet)
    asked = request_of(master, [PUBLIC, SECRET])
    assert (asked["do"], asked["unit"]) == ("write", "sanderling-master.service")
    assert [file["path"] for file in asked["files"]] == [
        "/etc/sanderling/keys/master.public",
        "/etc/sanderling/keys/node.secret",
    ]


def test_secrets_come_after_what_others_show(tmp_path):
    fleet = inventory()
    keys = store(tmp_path, fleet)
    for host in hosts(fleet):
        files = key_files_of(fleet, host, keys)
        assert [file.secret for file in files] == sorted(file.secret for file in files)
        assert all(not file.restart for file in files)
        assert files[-1].content == keys.secret_file(host.party)


def test_a_local_master_is_written_to_the_fleets_folder(tmp_path):
    write_local(tmp_path / "masters/iad4", [PUBLIC, SECRET])
    secret = tmp_path / "masters/iad4/keys/node.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    (tmp_path / "masters/iad5").write_text("in the way")
    with pytest.raises(HostError, match="iad5"):
        write_local(tmp_path / "masters/iad5", [SECRET])
