"""Which devices are written to: lsblk's listing in, a disk or one line out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fleet.image.devices import Unfit, card, contents, listed, parse

LISTINGS = Path(__file__).parent / "lsblk"
NEEDED = 2_000_000_000
REFUSED = {
    # listing, device: what the line says
    ("system_partition", "/dev/nvme0n1"): "holds this machine's system: /boot/efi is on",
    ("system_partition", "/dev/nvme0n1p2"): "is a partition; the whole card is /dev/nvme0n1",
    ("system_lvm", "/dev/sda"): "holds this machine's system: / is on /dev/mapper/vg-root",
    ("system_lvm", "/dev/mapper/vg-root"): "is no disk but of type lvm",
    ("system_luks_on_usb", "/dev/sda"): "holds this machine's system: /home is on",
    ("raid_member", "/dev/sdb"): "is part of a RAID; if nobody needs it: wipefs",
    ("raid_running", "/dev/sdb"): "is in use: /dev/md0 (raid1) is made of it",
    ("encrypted", "/dev/sdb"): "/dev/sdb is part of an encrypted disk",
    ("mounted", "/dev/sdb"): "/dev/sdb2 is mounted at /media/op/rootfs; umount /dev/sdb2",
    ("swap", "/dev/sdb"): "swapoff /dev/sdb2 first",
    ("read_only", "/dev/sdb"): "is read-only; cards have a switch",
    ("too_small", "/dev/sdb"): "has 1.0 GB, the image needs 2.0 GB",
    ("no_card", "/dev/sdb"): "has no card in it",
    ("second_internal_disk", "/dev/sdb"): "(WDC WD10EZEX-08W, 1.0 TB, sata) is built into",
    ("loop", "/dev/loop0"): "is a loop device; write to its file",
    ("optical", "/dev/sr0"): "is no disk but of type rom",
    ("card", "/dev/sdb1"): "is a partition; the whole card is /dev/sdb",
    ("card", "/dev/sdc"): "is no block device",
}


def devices(name):
    return parse((LISTINGS / f"{name}.json").read_bytes())


@pytest.mark.parametrize(("listing", "path"), REFUSED)
def test_what_is_not_a_free_card_is_refused(listing, path):
    with pytest.raises(Unfit) as refused:
        card(devices(listing), path, NEEDED)
    assert REFUSED[listing, path] in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("listing", "path"),
    [("card", "/dev/sdb"), ("blank_card", "/dev/sdb"), ("sd_slot", "/dev/mmcblk0")],
)
def test_a_free_card_is_taken(listing, path):
    assert card(devices(listing), path, NEEDED).path == path


def test_the_disk_with_the_fleets_folder_is_refused():
    with pytest.raises(Unfit, match="holds the fleet's folder"):
        card(devices("card"), "/dev/sdb", NEEDED, {"8:18": "the fleet's folder"})


def test_every_listing_has_a_verdict():
    tried = {listing for listing, _ in REFUSED} | {"card", "blank_card", "sd_slot"}
    assert {path.stem for path in LISTINGS.glob("*.json")} == tried


def test_what_would_be_overwritten_is_told():
    assert contents(card(devices("card"), "/dev/sdb", NEEDED)) == [
        "/dev/sdb1  536.9 MB  vfat bootfs",
        "/dev/sdb2  31.4 GB  ext4 rootfs",
    ]
    disk = card(devices("blank_card"), "/dev/sdb", NEEDED)
    assert disk.title == "Generic STORAGE DEVICE, 31.9 GB, usb"
    assert contents(disk) == ["no partitions"]


@pytest.mark.skipif(not shutil.which("lsblk"), reason="no lsblk (Debian: util-linux)")
def test_this_machine_can_be_listed():
    assert isinstance(listed(), tuple)
