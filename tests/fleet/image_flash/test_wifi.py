"""The Wi-Fi network that a card's node joins."""

import json

import pytest

from fleet.common import exits
from fleet.common.exits import CommandError
from fleet.image.fat import Fat
from fleet.image.inject import NodeData
from fleet.image.stock import cloud_init, firstrun
from fleet.image.wifi import network, wpa_supplicant
from fleet.keys.ssh import HostKey
from tests.fleet.image_flash.cards import make_bmap, make_image, needs_tools
from tests.fleet.image_flash.test_flash import OURS, TRIXIE, flash, folder, image

__all__ = ["folder", "image"]  # fixtures

CARD = NodeData("iad4/n3", "iad4-n3", "fleet", ("ssh-ed25519 A",), HostKey(b"secret", "public"))
WIFI = network("Meeting 4.13 'ü'", "DE", "correct horse")


# IEEE 802.11-2020, J.4.2: three pairs of password and name, and their keys.
@pytest.mark.parametrize(
    ("password", "ssid", "key"),
    [
        ("password", "IEEE", "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"),
        (
            "ThisIsAPassword",
            "ThisIsASSID",
            "0dc0d6eb90555ed6419756b9a15ec3e3209b63df707dd508d14581f8982721af",
        ),
        ("a" * 32, "Z" * 32, "becb93866bb8c3832cb777c2f559807c8c59afcb6eae734885001300a981cc62"),
    ],
)
def test_keys_are_those_of_the_standard(password, ssid, key):
    assert network(ssid, "DE", password).key == key


@pytest.mark.parametrize(
    ("ssid", "country", "password", "line"),
    [
        ("", "DE", "long enough", "1 to 32 printable bytes"),
        ("ü" * 17, "DE", "long enough", "1 to 32 printable bytes"),
        ("a\nb", "DE", "long enough", "1 to 32 printable bytes"),
        ("home", "de", "long enough", "two capital letters"),
        ("home", "DEU", "long enough", "two capital letters"),
        ("home", "DE", "short", "has 5 characters; WPA2 takes 8 to 63"),
        ("home", "DE", "x" * 64, "has 64 characters"),
        ("home", "DE", "passwörter", "characters that WPA2 does not know"),
    ],
)
def test_what_is_no_network_is_told_without_the_password(ssid, country, password, line):
    with pytest.raises(CommandError, match=line) as told:
        network(ssid, country, password)
    assert password not in str(told.value)


def test_the_password_is_in_no_file():
    files = [wpa_supplicant(WIFI), *cloud_init(CARD._replace(wifi=WIFI), "a1").values()]
    files += firstrun(CARD._replace(wifi=WIFI), b"root=x").values()
    assert not [each for each in files if b"correct horse" in each]
    assert "horse" not in repr(WIFI)
    assert WIFI.key not in repr(WIFI)


def test_cloud_init_joins_it_and_keeps_no_key():
    files = cloud_init(CARD._replace(wifi=WIFI), "a1")
    told = json.loads(files["network-config"])["network"]
    point = told["wifis"]["wlan0"]["access-points"]
    assert point == {"Meeting 4.13 'ü'": {"password": WIFI.key}}
    assert told["wifis"]["wlan0"]["regulatory-domain"] == "DE"
    assert WIFI.key.encode() not in files["sanderling-network-config"]
    scripts = [last for *_, last in json.loads(files["user-data"].split(b"\n", 1)[1])["runcmd"]]
    assert any("mv -f sanderling-network-config network-config" in each for each in scripts)


def test_a_script_quotes_whatever_a_network_is_called():
    script = firstrun(CARD._replace(wifi=WIFI), b"root=x")["firstrun.sh"].decode()
    assert """set_wlan 'Meeting 4.13 '"'"'ü'"'"''""" in script
    assert "set_wlan" not in firstrun(CARD, b"root=x")["firstrun.sh"].decode()


@needs_tools
def test_a_card_joins_the_network_of_its_flashing(folder, tmp_path, capsys):
    mark = OURS["sanderling/image.json"].replace(b"}", b',"wifi":true}')
    path = make_image(tmp_path / "pi4.img", {**OURS, "sanderling/image.json": mark})
    make_bmap(path)
    secret = tmp_path / "password"
    secret.write_text("correct horse\n")
    words = ["--wifi", "home", "--wifi-country", "DE", "--wifi-password-file", str(secret)]
    card = tmp_path / "n3.img"
    assert flash(folder, path, card, *words, "--yes") == exits.DONE
    assert "becomes iad4/n3 (iad4-n3), joins home (DE)" in capsys.readouterr().err
    written = Fat(card).read("sanderling/wpa_supplicant.conf")
    assert written == wpa_supplicant(network("home", "DE", "correct horse"))


@needs_tools
def test_an_image_that_cannot_join_one_is_refused(folder, image, tmp_path, capsys):
    secret = tmp_path / "password"
    secret.write_text("correct horse\n")
    words = ["--wifi", "home", "--wifi-country", "DE", "--wifi-password-file", str(secret)]
    assert flash(folder, image, tmp_path / "n3.img", *words, "--yes") == exits.USAGE
    assert "pi4.img takes no Wi-Fi" in capsys.readouterr().err
    assert not (tmp_path / "n3.img").exists()


@needs_tools
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--wifi", "home"], "needs both --wifi SSID and --wifi-country CC"),
        (["--wifi-country", "DE"], "needs both"),
        (["--wifi", "home", "--wifi-country", "DE"], "nobody can be asked for the password"),
        (
            ["--wifi", "home", "--wifi-country", "DE", "--wifi-password-file", "nowhere"],
            "No such file",
        ),
    ],
)
def test_half_a_network_is_refused_in_a_line(folder, tmp_path, capsys, words, line):
    path = make_image(tmp_path / "os.img", TRIXIE)
    assert flash(folder, path, tmp_path / "n3.img", *words, "--yes") == exits.USAGE
    assert line in capsys.readouterr().err
