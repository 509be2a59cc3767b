"""Webhooks in a configuration: what is wrong with one is said in a line; and signatures."""

from __future__ import annotations

import re
from email import message_from_string
from pathlib import Path

import pytest

from agent.master.push.webhooks import headers, hooks_of, keys_in
from agent.wire.config import ConfigError, parse
from agent.wire.master_config import MasterConfig
from agent.wire.webhook_config import Target, target
from tests.master.webhook_receiver import KEYS, write_keys

SOCKETS = {"public": "ipc:///run/p", "operator": "ipc:///run/o"}


def hooks(folder, *changes):
    write_keys(folder / "good")
    write_keys(folder / "open").chmod(0o644)
    write_keys(folder / "short", [b"short"])
    write_keys(folder / "three", [KEYS[0]] * 3)
    write_keys(folder / "none", [])
    hook = {"name": "pager", "url": "http://h/", "filter": "*", "secret": "good"}
    table = {"iad": {"name": "iad1"}, "sockets": SOCKETS, "webhook": [hook | c for c in changes]}
    return hooks_of(parse(table, MasterConfig, "test"), folder)


def test_a_webhook_that_can_be_used(tmp_path):
    write_keys(tmp_path / "both", KEYS)
    [hook] = hooks(tmp_path, {"secret": "both"})
    assert hook.keys == KEYS
    assert hook.wanted == ((),)
    assert repr(hook) == "<hook pager>"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"url": "ftp://h/"}, "webhook.url of pager: neither http://host/path nor https://"),
        ({"url": "http://u:p@h/"}, "webhook.url of pager: a user stands in it"),
        ({"url": "http://h:99999/"}, "webhook.url of pager: no host and port"),
        ({"url": "http://h:0/"}, "webhook.url of pager: ports go from 1"),
        ({"url": "http://h/é"}, "webhook.url of pager: not plain ASCII"),
        ({"url": "http://h/\r\nX: y"}, "webhook.url of pager: not plain ASCII"),
        ({"url": "http://h/#x"}, "webhook.url of pager: the part from # on"),
        ({"filter": "value >"}, "webhook.filter of pager: at character"),
        ({"secret": "missing"}, "missing: No such file"),
        ({"secret": "open"}, "chmod 600"),
        ({"secret": "short"}, "short: line 1 is no key (24 to 64 bytes in Base64)"),
        ({"secret": "three"}, "three: 3 keys; at most 2 sign"),
        ({"secret": "none"}, "none: no key in it"),
        ({"ca": "x.pem"}, "webhook.ca of pager is of no use without https://"),
        ({"url": "https://h/", "ca": "x.pem"}, "webhook.ca of pager: there is no file"),
        ({"url": "https://h/", "ca": "short"}, "short has no certificate in PEM"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, change, line):
    with pytest.raises(ConfigError) as refused:
        hooks(tmp_path, change)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_are_told_apart(tmp_path):
    with pytest.raises(ConfigError, match="two have the same name"):
        hooks(tmp_path, {}, {})


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://h", Target(False, "h", 80, "/")),
        ("https://H.example/a/b?c=d&e", Target(True, "h.example", 443, "/a/b?c=d&e")),
        ("http://[::1]:8080/x", Target(False, "::1", 8080, "/x")),
    ],
)
def test_where_requests_go(url, found):
    assert target(url) == found


def test_the_signature_is_that_of_the_specification():
    """The example of the Standard Webhooks libraries."""
    keys = keys_in("# of the pager\nwhsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", "f")
    body = b'{"test": 2432232314}'
    assert headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body, keys) == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_while_a_key_is_replaced_both_sign():
    one, other = (headers("w_1", 1, b"{}", [key])["webhook-signature"] for key in KEYS)
    assert headers("w_1", 1, b"{}", KEYS)["webhook-signature"] == f"{one} {other}"


def test_the_page_checks_its_own_example(monkeypatch):
    text = (Path(__file__).parents[3] / "docs" / "use" / "webhooks.md").read_text()
    [request] = re.findall(r"```\nPOST .*?\n(.*?)```", text, re.DOTALL)
    told, _, body = request.partition("\n\n")
    body = body.replace("\n ", "").strip().encode()
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    exec(code, names)
    said = message_from_string(told)
    [secret] = re.findall(r"`(whsec_.{32})`", text)
    monkeypatch.setattr("time.time", lambda: int(said["webhook-timestamp"]) + 299)
    assert names["is_ours"](said, body, secret)
    assert not names["is_ours"](said, body + b" ", secret)
    monkeypatch.setattr("time.time", lambda: int(said["webhook-timestamp"]) + 300)
    assert not names["is_ours"](said, body, secret)
