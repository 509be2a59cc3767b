"""Webhooks in an inventory: what becomes of them at their master, and what is wrong with one."""

from __future__ import annotations

import pytest

from agent.master.push.webhooks import hooks_of
from agent.wire import config
from agent.wire.master_config import MasterConfig
from fleet.inventory.files import files_of, master_config
from fleet.inventory.problems import problems, warnings
from fleet.inventory.selection import one_host
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import Store
from fleet.rollout.keys.push import write_local
from tests.fleet.inventory.inventories import PLAIN, read
from tests.fleet.inventory.test_files import Numbered
from tests.fleet.keys.rig import store

PAGER = """
[[iad.master.webhook]]
name = "pager"
url = "https://pager.example.com/hooks/4711"
filter = "value > 30"
ca = "/etc/ssl/pager.pem"
"""


def hooked(text: str = PAGER) -> str:
    return PLAIN.replace('address = "10.1.0.10"\n', f'address = "10.1.0.10"\n{text}')


def test_its_master_is_told_and_gets_the_secret():
    fleet = read(hooked())
    assert problems(fleet) == []
    [webhook] = master_config(fleet, fleet.iad[0]).webhook
    assert (webhook.name, webhook.ca) == ("pager", "/etc/ssl/pager.pem")
    assert webhook.filter == "value > 30"
    assert master_config(fleet, fleet.iad[1]).webhook == ()
    found = {f.path: f for f in files_of(fleet, one_host(fleet, "iad1/master"), Numbered(fleet))}
    secret = found[webhook.secret]
    assert (secret.content, secret.mode, secret.owner, secret.restart) == (
        b"secret of pager of iad1\n",
        0o600,
        "sanderling",
        True,
    )


def test_no_other_user_of_its_host_reads_its_url():
    fleet = read(hooked())
    for name, mode, owner in (("iad1", 0o640, "sanderling"), ("iad2", 0o644, "root")):
        files = files_of(fleet, one_host(fleet, f"{name}/master"), Numbered(fleet))
        [found] = [each for each in files if each.path == "master.toml"]
        assert (found.mode, found.owner) == (mode, owner)


def test_the_master_takes_what_the_key_store_made(tmp_path):
    fleet = read(hooked(PAGER.replace('ca = "/etc/ssl/pager.pem"\n', "")))
    keys = store(tmp_path / "fleet", fleet)
    write_local(tmp_path / "host", files_of(fleet, one_host(fleet, "iad1/master"), keys))
    found = config.load(tmp_path / "host/master.toml", MasterConfig)
    [hook] = hooks_of(found, tmp_path / "host")
    assert [len(key) for key in hook.keys] == [32]
    assert keys.ensure(fleet) == []
    assert Store(keys.folder).webhook_file("iad1", "pager") == keys.webhook_file("iad1", "pager")


def test_one_without_a_secret_says_how_it_gets_one(tmp_path):
    keys = store(tmp_path, read(PLAIN))
    fleet = read(hooked())
    with pytest.raises(KeyStoreError, match=r"webhook pager of iad1 .*fleet keys init"):
        files_of(fleet, one_host(fleet, "iad1/master"), keys)
    [made] = keys.ensure(fleet)
    assert str(made) == "webhook pager of iad1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (PAGER + PAGER, "iad1/master: webhook pager: there are two"),
        (PAGER.replace("value > 30", "value >"), "iad1/master: webhook pager: filter 'value >': "),
        (PAGER.replace("/etc/ssl/", ""), "iad1/master: webhook pager: ca 'pager.pem': name the"),
    ],
)
def test_what_is_wrong_is_one_line(text, says):
    [problem] = problems(read(hooked(text)))
    assert problem.startswith(says)
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("temperature > 30", 'of a channel, write metric = "temperature" and value > 30'),
        ('area under "b9"', "no alert comes until somebody covers b9: nobody known here does"),
        ('area under "b1/f11"', "did you mean b1/f1?"),
        ('iad = "iad3"', "no alert comes of iad3: no IAD in the overlay is; did you mean iad1?"),
    ],
)
def test_a_filter_that_no_alert_of_the_fleet_matches_is_a_warning(text, says):
    fleet = read(hooked(PAGER.replace("value > 30", text.replace('"', '\\"'))))
    assert problems(fleet) == []
    [warning] = [each for each in warnings(fleet) if "webhook" in each]
    assert warning.startswith("iad1/master: webhook pager: no alert ")
    assert warning.endswith(says)


@pytest.mark.parametrize("text", ["value > 30", 'area under \\"b2\\"', "value >", "*"])
def test_one_that_may_match_or_cannot_be_read_is_none(text):
    fleet = read(hooked(PAGER.replace("value > 30", text)))
    assert [each for each in warnings(fleet) if "webhook" in each] == []
