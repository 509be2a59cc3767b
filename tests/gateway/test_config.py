"""A gateway's configuration: what is dangerous or contradicts itself is refused in one line."""

import pytest

from agent.gateway.config import GatewayConfig, is_loopback, with_outputs
from agent.wire.config import ConfigError, parse


def read(**sections):
    return parse(sections, GatewayConfig, "gateway.toml")


def test_all_has_a_default_and_stays_on_this_host():
    config = read()
    assert config.http.is_local
    assert config.master.addresses == ("tcp://127.0.0.1:5700",)


@pytest.mark.parametrize(
    ("http", "words"),
    [
        ({"listen": "0.0.0.0:8080"}, "leaves this host without TLS"),
        ({"listen": "10.0.0.4:80"}, "leaves this host without TLS"),
        ({"listen": "[::]:80"}, "leaves this host without TLS"),
        ({"listen": "127.0.0.1:0"}, "ports go from 1"),
        ({"listen": "8080"}, "http.listen"),
        ({"certificate": "c.pem"}, "go together"),
        ({"proxies": ["proxy.example"]}, "no IP address"),
        ({"hosts": ["a/b"]}, "http.hosts"),
        (
            {"listen": "0.0.0.0:443", "certificate": "c.pem", "private_key": "k.pem"},
            "set http.hosts",
        ),
    ],
)
def test_no_door_is_open_by_mistake(http, words):
    with pytest.raises(ConfigError, match=words):
        read(http=http)


@pytest.mark.parametrize(
    "http",
    [
        {"listen": "[::1]:8080"},
        {"listen": "localhost:1"},
        {"listen": "10.0.0.4:443", "certificate": "c.pem", "private_key": "k.pem"},
        {"listen": "0.0.0.0:80", "proxies": ["10.0.0.2"], "hosts": ["rooms.example.com"]},
    ],
)
def test_what_is_guarded_is_taken(http):
    assert read(http=http).http.port


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"master": {"addresses": ["tcp://10.0.0.1:5700"]}}, "leaves this host without keys"),
        ({"master": {"key": "gateway.secret"}}, "go together"),
        (
            {"master": {"addresses": ["tcp://a:1", "tcp://b:1"], "key": "k", "keys": ["m"]}},
            "1 files for 2 addresses",
        ),
        ({"operator": {"address": "tcp://127.0.0.1:1", "key": "k"}}, "go together"),
        ({"operator": {"key": "k", "keys": "m"}}, "of no use"),
        ({"operators": [{}]}, "each has an address"),
        ({"operators": [{"address": "tcp://10.0.0.1:5702"}]}, "leaves this host without keys"),
        ({"operators": [{"address": "tcp://127.0.0.1:1"}] * 2}, "named twice"),
        ({"console": {"every_s": 0.1}}, "console.every_s"),
        ({"acess": {}}, "access"),
    ],
)
def test_contradictions_are_one_line(sections, words):
    with pytest.raises(ConfigError, match=words) as error:
        read(**sections)
    assert "\n" not in str(error.value)


def test_loopback_is_known_by_name_and_number():
    assert [is_loopback(host) for host in ("localhost", "127.3.2.1", "::1", "10.1.1.1", "x")] == [
        True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("http", "url"),
    [
        ({}, "http://127.0.0.1:8080"),
        ({"listen": "[::1]:80"}, "http://[::1]:80"),
        ({"hosts": ["rooms"]}, "http://rooms:8080"),
        (
            {"listen": "0.0.0.0:443", "certificate": "c", "private_key": "k", "hosts": ["rooms"]},
            "https://rooms",
        ),
        ({"listen": "10.0.0.1:81", "proxies": ["10.0.0.2"], "hosts": ["rooms"]}, "https://rooms"),
    ],
)
def test_links_lead_where_browsers_get_in(http, url):
    assert read(http=http).http.url == url


# --- the file of outputs -------------------------------------------------------------------------

MQTT = '[mqtt]\naddress = "mqtt://127.0.0.1:1883"\n'
NTFY = '[[ntfy]]\nname = "phone"\nurl = "https://ntfy.sh/rooms"\n'


def test_outputs_stand_in_a_file_of_their_own(tmp_path):
    config = read(gateway={"outputs": "outputs.toml"})
    assert with_outputs(config, tmp_path) == config, "it need not be there"
    (tmp_path / "outputs.toml").write_text(MQTT + NTFY)
    found = with_outputs(config, tmp_path)
    assert found.mqtt.host == "127.0.0.1"
    assert [each.name for each in found.ntfy] == ["phone"]
    assert found.http == config.http
    assert with_outputs(read(), tmp_path).mqtt is None, "nobody named it"


@pytest.mark.parametrize("target", ["not-mounted/outputs.toml", "outputs.toml"])
def test_a_link_to_no_file_of_outputs_is_refused(tmp_path, target):
    """Nobody would be told of any alert."""
    (tmp_path / "outputs.toml").symlink_to(target)
    with pytest.raises(ConfigError, match=r"outputs\.toml: "):
        with_outputs(read(gateway={"outputs": "outputs.toml"}), tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MQTT, "outputs.toml: mqtt stands in the gateway's own file, too"),
        ('[http]\nlisten = "0.0.0.0:80"\n', "outputs.toml: .*http"),
        (NTFY + NTFY, "two have the same name"),
        ("[mqtt", "outputs.toml"),
    ],
)
def test_a_file_of_outputs_that_cannot_be_used_is_one_line(tmp_path, text, words):
    (tmp_path / "outputs.toml").write_text(text)
    config = read(gateway={"outputs": "outputs.toml"}, mqtt={"address": "mqtt://other:1883"})
    with pytest.raises(ConfigError, match=words) as found:
        with_outputs(config, tmp_path)
    assert "\n" not in str(found.value)
