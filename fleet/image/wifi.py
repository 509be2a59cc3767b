"""A node's Wi-Fi network, as its first boot reads it.

The password is never written anywhere: a card gets the key that WPA2 derives from it, which opens
this network only. Networks that allow WPA3 alone cannot be joined so.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

from fleet.common import files
from fleet.common.exits import CommandError

# IEEE 802.11-2020, 9.4.2.2 and J.4.1.
MAX_SSID: Final = 32
SHORTEST_PASSWORD: Final = 8
MAX_PASSWORD: Final = 63
ROUNDS: Final = 4_096
KEY_BYTES: Final = 32
MAX_LINE: Final = 1_024
COUNTRY: Final = re.compile(r"[A-Z]{2}")


class Wifi(NamedTuple):
    """A network, the country whose radio rules hold there (ISO 3166-1 alpha-2), and its key."""

    ssid: str
    country: str
    key: str  # 64 hexadecimal digits

    def __repr__(self) -> str:
        return f"<Wi-Fi {self.ssid}>"  # never the key, because it is printed


def network(ssid: str, country: str, password: str) -> Wifi:
    """The network of this name. CommandError, which never shows the password."""
    name = ssid.encode()
    if not 1 <= len(name) <= MAX_SSID or not ssid.isprintable():
        raise CommandError(f"--wifi: a network's name has 1 to {MAX_SSID} printable bytes")
    if not COUNTRY.fullmatch(country):
        raise CommandError("--wifi-country: two capital letters, such as DE (ISO 3166-1)")
    if not (password.isascii() and password.isprintable()):
        raise CommandError("the Wi-Fi password has characters that WPA2 does not know")
    if not SHORTEST_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise CommandError(
            f"the Wi-Fi password has {len(password)} characters; WPA2 takes "
            f"{SHORTEST_PASSWORD} to {MAX_PASSWORD}"
        )
    key = hashlib.pbkdf2_hmac("sha1", password.encode(), name, ROUNDS, KEY_BYTES)
    return Wifi(ssid, country, key.hex())


def password_in(path: Path) -> str:
    """The password that is a file's first line. CommandError."""
    try:
        return files.first_line(path, MAX_LINE)
    except OSError as error:
        raise CommandError(f"--wifi-password-file: {path}: {error.strerror}") from None


def wpa_supplicant(wifi: Wifi) -> bytes:
    """wpa_supplicant.conf; the name in hexadecimal digits, which need no escapes."""
    return (
        f"country={wifi.country}\n"
        f"network={{\n\tssid={wifi.ssid.encode().hex()}\n\tscan_ssid=1\n"
        f"\tkey_mgmt=WPA-PSK\n\tpsk={wifi.key}\n}}\n"
    ).encode()


def network_config(wifi: Wifi) -> bytes:
    """cloud-init's network-config, version 2 (netplan): Ethernet if there is any, and this."""
    wireless = {
        "dhcp4": True,
        "optional": True,
        "regulatory-domain": wifi.country,
        "access-points": {wifi.ssid: {"password": wifi.key}},
    }
    wired = {"match": {"name": "e*"}, "dhcp4": True, "optional": True}
    document = {"version": 2, "ethernets": {"wired": wired}, "wifis": {"wlan0": wireless}}
    return (json.dumps({"network": document}, indent=2) + "\n").encode()


def set_wlan(wifi: Wifi) -> str:
    """Shell lines for Raspberry Pi OS: by its own program, where it is there."""
    program = "/usr/lib/raspberrypi-sys-mods/imager_custom"
    path = "/etc/wpa_supplicant/wpa_supplicant.conf"
    words = " ".join(quote(word) for word in (wifi.ssid, wifi.key, wifi.country))
    return (
        f"    if [ -x {program} ]; then\n"
        f"        {program} set_wlan {words}\n"
        "    else\n"
        f"        (umask 077 && printf '%s' {quote(wpa_supplicant(wifi).decode())} >{path})\n"
        "        rfkill unblock wifi\n"
        "    fi\n"
    )
