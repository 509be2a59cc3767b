"""The allow-list: whose key it is, and what becomes of a file that changes."""

import itertools

import pytest

from agent.net.allow_list import AllowList, Party
from agent.wire.config import ConfigError
from agent.wire.principals import Sender

KEYS = ["".join(p) for p in itertools.islice(itertools.product("abcd", repeat=40), 9)]

LIST = f"""
[[client]]
name = "campus-app"
keys = ["{KEYS[0]}", "{KEYS[1]}"]
services = ["default"]
rate_per_s = 5
[[node]]
name = "n1"
keys = ["{KEYS[2]}"]
[[iad]]
name = "iad2"
keys = ["{KEYS[3]}"]
[[node]]
name = "n2"
keys = ["{KEYS[8]}"]
areas = ["b1/f4/r2", "b1/f5"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "allow.toml"
    path.write_text(LIST)
    return path


def test_keys_and_whose_they_are(file):
    allowed = AllowList(str(file))
    app = Sender("client", "campus-app", ("default",), 5.0)
    assert [allowed.find(key) for key in KEYS[:5]] == [
        app,
        app,
        Sender("node", "n1"),
        Sender("iad", "iad2"),
        None,
    ]
    assert allowed.find(KEYS[8]) == Sender("node", "n2", areas=("b1/f4/r2", "b1/f5"))


@pytest.mark.parametrize("areas", ["[]", '["b1/*"]', '"b1"'])
def test_areas_that_are_none_are_refused(file, areas):
    file.write_text(LIST.replace('["b1/f4/r2", "b1/f5"]', areas))
    with pytest.raises(ConfigError, match="areas"):
        AllowList(str(file))


def test_parties_come_and_go_and_the_file_comes_first(file):
    allowed = AllowList(str(file))
    stranger, member = Party(Sender("csp", "shop"), (KEYS[3], KEYS[5])), KEYS[5]
    allowed.set_parties("accounts", [stranger])
    assert allowed.find(KEYS[3]) == Sender("iad", "iad2")
    assert allowed.find(member) == Sender("csp", "shop")
    allowed.set_parties("peers", [Party(Sender("iad", "iad9"), (KEYS[6],))])
    assert allowed.find(member) is not None
    allowed.set_parties("accounts", [])
    assert allowed.find(member) is None
    assert allowed.find(KEYS[6]) == Sender("iad", "iad9")


def test_a_key_that_no_source_names_is_asked_for(file):
    allowed, known = AllowList(str(file)), {}
    allowed.ask = known.get
    shop = Sender("csp", "shop")
    for key in (KEYS[3], KEYS[5]):
        known[key] = shop
    assert allowed.find(KEYS[3]) == Sender("iad", "iad2"), "the file comes first"
    assert allowed.find(KEYS[5]) == shop
    del known[KEYS[5]]
    assert allowed.find(KEYS[5]) is None


def test_a_name_that_is_known_gets_no_key_by_hearsay(file):
    allowed = AllowList(str(file))
    allowed.set_parties("accounts", [Party(Sender("iad", "iad5"), (KEYS[4],))])
    heard = [Party(Sender("iad", f"iad{n}"), (KEYS[n + 3],)) for n in (2, 3)]
    heard.append(Party(Sender("iad", "iad5"), (KEYS[7],)))
    allowed.set_parties("peers", heard, hearsay=True)
    assert allowed.find(KEYS[5]) is None, "iad2 stands in the file"
    assert allowed.find(KEYS[7]) is None, "iad5 has an account"
    assert allowed.find(KEYS[6]) == Sender("iad", "iad3")
    allowed.set_parties("accounts", [])
    assert allowed.find(KEYS[7]) == Sender("iad", "iad5")


def test_hearsay_counts_while_its_owner_is_known_otherwise(file):
    file.write_text(LIST.replace("[[iad]]", "[[csp]]"))
    allowed = AllowList(str(file))
    heard = {4: "iad2", 5: "iad5", 6: "iad14", 7: "n1"}
    allowed.set_parties(
        "peers",
        [Party(Sender("iad", f"iad1{n}"), (KEYS[n],), owner) for n, owner in heard.items()],
        hearsay=True,
    )
    assert allowed.find(KEYS[4]) == Sender("iad", "iad14")
    assert allowed.find(KEYS[5]) is None, "iad5 is unknown"
    assert allowed.find(KEYS[6]) is None, "iad14 is hearsay itself"
    assert allowed.find(KEYS[7]) is None, "n1 does not trade"
    allowed.set_parties("accounts", [Party(Sender("iad", "iad5"), (KEYS[1],))])
    assert allowed.find(KEYS[5]) == Sender("iad", "iad15")
    allowed.set_parties("accounts", [])
    assert allowed.find(KEYS[5]) is None
    file.write_text(LIST.replace("[[iad]]", "[[operator]]"))
    assert allowed.refresh()
    assert allowed.find(KEYS[4]) is None, "its owner is revoked"


def test_an_edit_counts_and_a_broken_one_does_not(file):
    allowed = AllowList(str(file))
    file.write_text(LIST.replace(KEYS[1], KEYS[4]))
    allowed.refresh()
    assert allowed.find(KEYS[1]) is None
    assert allowed.find(KEYS[4]) is not None
    file.write_text("[[client]")
    with pytest.raises(ConfigError):
        allowed.refresh()
    allowed.refresh()
    assert allowed.find(KEYS[4]) is not None
    file.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        allowed.refresh()
    assert allowed.find(KEYS[4]) is not None


def test_without_a_file_only_parties_are_allowed():
    allowed = AllowList()
    allowed.refresh()
    assert allowed.find(KEYS[0]) is None


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (KEYS[2], KEYS[3], f"iad iad2 has a key of node n1: {KEYS[3]}"),
        ("[[iad]]", "[[aid]]", "unknown key aid; did you mean iad?"),
        ("rate_per_s", "rate", "(first [[client]]): unknown key rate; did you mean rate_per_s?"),
        (f'["{KEYS[3]}"]', "[]", "iad iad2 (first [[iad]]): keys must not be empty"),
        (KEYS[3], "short", "keys, first entry must be a public key of 40 characters"),
        ("[[iad]]\n", f'[[node]]\nname = "n1"\nkeys = ["{KEYS[4]}"]\n[[iad]]\n', "node n1 stands"),
        ('name = "n1"', 'name = "n 1"', "node n 1 (first [[node]]): name must be a name"),
        ("rate_per_s = 5", "rate_per_s = 0", "(first [[client]]): rate_per_s must be above 0"),
    ],
)
def test_one_line_says_what_is_wrong_with_the_file(file, before, after, line):
    assert before in LIST
    file.write_text(LIST.replace(before, after))
    with pytest.raises(ConfigError) as refused:
        AllowList(str(file))
    assert str(refused.value).startswith(f"{file}: ")
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_only_the_file_calls_a_master_a_partner(file):
    file.write_text(
        f'[[iad]]\nname = "iad2"\npartner = true\nkeys = ["{"a" * 40}"]\n'
        f'[[iad]]\nname = "iad3"\nkeys = ["{"b" * 40}"]\n'
    )
    allowed = AllowList(str(file))
    allowed.set_parties("accounts", [Party(Sender("iad", "iad2"), ("c" * 40,))])
    assert allowed.partner_keys("iad2") == ("a" * 40,)
    assert allowed.partner_keys("iad3") == allowed.partner_keys("iad9") == ()
    partners = {key: allowed.find(key * 40).partner for key in "ab"}
    assert partners == {"a": True, "b": False}
    # Nobody takes its name.
    allowed.ask = lambda _key: Sender("iad", "iad2")
    assert allowed.find("c" * 40) is allowed.find("d" * 40) is None


def test_names_of_nodes(file):
    allowed = AllowList(str(file))
    allowed.set_parties("accounts", [Party(Sender("node", "n3"), (KEYS[4],))])
    assert [allowed.names_node(name) for name in ("n1", "n2", "n3", "iad2")] == [
        True,
        True,
        False,
        False,
    ]
