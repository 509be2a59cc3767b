"""Sets of a home and their copies, step by step."""

import pytest

from agent.overlay.anti_entropy import (
    ITEMS_OF_A_PART,
    KEPT_CHANGES,
    NOTHING,
    AntiEntropy,
    Delta,
    SnapshotPart,
    Version,
)


def home_with(items, epoch=1, **limits):
    home = AntiEntropy("home", epoch, **limits)
    for name, item in items.items():
        home.put(name, item)
    return home


def copy_to(home, other, since=None, most=ITEMS_OF_A_PART):
    since = other.version("home") if since is None else since
    return [other.take(update) for update in home.updates("home", since, most)]


def test_each_change_is_the_next_version():
    home = AntiEntropy("home", 7)
    assert home.versions() == {"home": (7, 0)}
    assert home.put("x", 1) == Delta("home", Version(7, 1), "x", 1)
    assert home.put("x", 2) == Delta("home", Version(7, 2), "x", 2)
    assert home.withdraw("x") == Delta("home", Version(7, 3), "x", None)
    assert home.versions() == {"home": (7, 3)}
    assert len(home) == 0


def test_what_changes_nothing_is_no_change():
    home = home_with({"x": 1})
    assert home.put("x", 1) is None
    assert home.withdraw("y") is None
    assert home.version("home") == (1, 1)


def test_changes_in_order_are_news_once():
    home, other = AntiEntropy("home", 1), AntiEntropy("other", 1)
    first, second, third = home.put("x", 1), home.put("x", 2), home.withdraw("x")
    assert other.take(first) == ("news", {}, {"x": 1})
    assert other.take(first) == ("known", {}, {})
    assert other.take(second) == ("news", {"x": 1}, {"x": 2})
    assert len(other) == 1
    assert other.take(third) == ("news", {"x": 2}, {})
    assert other.take(second) == ("known", {}, {})
    assert len(other) == 0
    assert other.version("home") == home.version("home")


def test_after_a_gap_the_changes_in_between_are_enough():
    home, other = AntiEntropy("home", 1), AntiEntropy("other", 1)
    other.take(home.put("x", 1))
    lost, late = home.put("y", 2), home.put("z", 3)
    assert other.take(late).kind == "gap"
    assert other.items("home") == {"x": 1}
    assert home.updates("home", other.version("home")) == [lost, late]
    assert [effect.kind for effect in copy_to(home, other)] == ["news", "news"]
    assert other.items("home") == {"x": 1, "y": 2, "z": 3}


def test_changes_are_kept_up_to_a_bound_then_the_set_goes_whole():
    home = home_with({f"n{i}": i for i in range(KEPT_CHANGES + 1)})
    number = KEPT_CHANGES + 1
    kept = home.updates("home", Version(1, 1))
    assert len(kept) == KEPT_CHANGES
    assert all(isinstance(update, Delta) for update in kept)
    whole = home.updates("home", NOTHING)
    assert [(p.version, p.start, p.total) for p in whole] == [((1, number), 0, number)]
    assert home.updates("home", Version(1, number)) == []
    assert home.updates("home", Version(2, 0)) == []
    assert home.updates("somebody", NOTHING) == []


def test_a_set_in_parts_is_news_when_the_last_part_is_there():
    home = home_with({"c": 3, "a": 1, "b": 2, "e": 5, "d": 4})
    other = AntiEntropy("other", 1)
    parts = home.updates("home", NOTHING, most=2)
    assert parts[1] == SnapshotPart("home", Version(1, 5), 2, 5, (("c", 3), ("d", 4)))
    assert [other.take(part).kind for part in parts[:2]] == ["waiting", "waiting"]
    assert other.version("home") == NOTHING
    assert other.versions() == {"other": (1, 0)}
    assert other.take(parts[2]) == ("news", {}, {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5})
    assert len(other) == 5


def test_parts_of_one_set_go_together_whoever_cut_them():
    home, other = home_with({name: name for name in "abcde"}), AntiEntropy("other", 1)
    third = AntiEntropy("third", 1)
    copy_to(home, third)
    assert other.take(home.updates("home", NOTHING, most=3)[0]).kind == "waiting"
    kinds = [effect.kind for effect in copy_to(third, other, most=2)]
    assert kinds == ["waiting", "waiting", "news"]
    assert other.items("home") == home.items("home")


def test_a_part_without_the_one_before_is_a_gap():
    home, other = home_with(dict.fromkeys("abcde", 0)), AntiEntropy("other", 1)
    first, second, third = home.updates("home", NOTHING, most=2)
    assert other.take(second).kind == "gap"
    other.take(first)
    assert other.take(third).kind == "gap"
    assert [other.take(part).kind for part in (second, third)] == ["waiting", "news"]


def test_a_later_set_takes_the_place_of_one_that_is_arriving():
    home, other = home_with(dict.fromkeys("abcd", 0)), AntiEntropy("other", 1)
    earlier = home.updates("home", NOTHING, most=3)
    home.put("a", 1)
    later = home.updates("home", NOTHING, most=3)
    other.take(earlier[0])
    assert other.take(later[1]).kind == "gap"
    assert other.take(later[0]).kind == "waiting"
    assert other.take(earlier[1]).kind == "waiting"
    assert other.take(later[1]).kind == "news"
    assert other.items("home")["a"] == 1
    assert other.take(earlier[1]).kind == "known"


def test_an_earlier_set_may_come_when_nobody_ends_the_later_one():
    home, third, other = (
        home_with(dict.fromkeys("abcd", 0)),
        AntiEntropy("t", 1),
        AntiEntropy("o", 1),
    )
    copy_to(home, third)
    home.put("a", 1)
    other.take(home.updates("home", NOTHING, most=3)[0])
    assert [effect.kind for effect in copy_to(third, other, most=3)] == ["waiting", "news"]
    assert other.items("home") == dict.fromkeys("abcd", 0)


@pytest.mark.parametrize("way", ["changes", "parts", "a new epoch"])
def test_a_set_that_arrived_or_was_overtaken_takes_no_memory(way):
    home, other = AntiEntropy("home", 1), AntiEntropy("other", 1)
    other.take(home.put("a", 0))
    for name in "bcd":
        home.put(name, 0)
    first, last = home.updates("home", NOTHING, most=3)
    assert other.take(first).kind == "waiting"
    if way == "changes":
        copy_to(home, other)
    elif way == "parts":
        other.take(last)
    else:
        other.take(Delta("home", Version(2, 1), "e", 1))
    assert other.version("home") >= home.version("home")
    assert other._sets["home"].arrived == []


def test_an_empty_set_is_a_part_too():
    home, other = home_with({"x": 1}), AntiEntropy("other", 1)
    copy_to(home, other)
    home = AntiEntropy("home", 2)
    assert home.updates("home", other.version("home")) == [
        SnapshotPart("home", Version(2, 0), 0, 0, ())
    ]
    assert copy_to(home, other) == [("news", {"x": 1}, {})]
    assert other.versions() == {"other": (1, 0), "home": (2, 0)}


def test_after_a_restart_only_the_difference_is_news():
    other = AntiEntropy("other", 1)
    copy_to(home_with({"same": 1, "changed": 2, "gone": 3}), other)
    again = home_with({"same": 1, "changed": 20, "new": 4}, epoch=2)
    assert other.take(again.put("late", 5)).kind == "gap"
    assert other.items("home") == {"same": 1, "changed": 2, "gone": 3}
    (effect,) = copy_to(again, other)
    assert effect.removed == {"changed": 2, "gone": 3}
    assert effect.added == {"changed": 20, "new": 4, "late": 5}
    assert len(other) == 4


def test_the_first_change_of_an_epoch_ends_the_one_before():
    other = AntiEntropy("other", 1)
    copy_to(home_with({"x": 1, "y": 2}), other)
    again = AntiEntropy("home", 2)
    assert other.take(again.put("y", 2)) == ("news", {"x": 1}, {})
    assert other.take(again.put("z", 3)) == ("news", {}, {"z": 3})
    assert other.items("home") == {"y": 2, "z": 3}


def test_what_an_epoch_before_said_comes_too_late():
    home, other = home_with({"x": 1}), AntiEntropy("other", 1)
    late = home.put("y", 2)
    other.take(AntiEntropy("home", 2).put("z", 3))
    assert other.take(late).kind == "known"
    assert other.items("home") == {"z": 3}


def test_a_home_that_lost_its_epoch_goes_above_its_past():
    other = AntiEntropy("other", 1)
    copy_to(home_with({"x": 1, "y": 2, "z": 3}, epoch=9), other)
    again = home_with({"x": 1, "w": 4}, epoch=2)
    assert other.ahead_of(again.versions()) == ["other", "home"]
    assert again.outbid(other.versions())
    assert not again.outbid(other.versions())
    assert again.version("home") == (10, 2)
    (effect,) = copy_to(again, other)
    assert (effect.removed, effect.added) == ({"y": 2, "z": 3}, {"w": 4})
    other.take(again.put("v", 5))
    assert other.items("home") == {"x": 1, "w": 4, "v": 5}


def test_an_update_from_its_past_makes_it_do_so_too():
    past = home_with({"x": 1, "y": 2}, epoch=9)
    again = home_with({"x": 1}, epoch=2)
    assert again.take(past.put("z", 3)) == ("outbid", {}, {})
    assert again.version("home") == (10, 1)
    assert again.take(past.put("w", 4)).kind == "known"
    empty = AntiEntropy("home", 2)
    empty.outbid({"home": Version(9, 3)})
    assert empty.version("home") == (10, 0)
    assert not empty.outbid({"home": Version(10, 0), "other": Version(99, 0)})
    assert not empty.outbid({})


def test_comparing_names_the_homes():
    a, b = AntiEntropy("a", 1), AntiEntropy("b", 1)
    a.put("x", 1)
    a.take(Delta("c", Version(3, 1), "y", 2))
    b.take(Delta("c", Version(3, 1), "y", 1))
    b.take(Delta("d", Version(1, 1), "z", 3))
    assert a.ahead_of(b.versions()) == ["a"]
    assert a.ahead_of(a.versions()) == []
    assert a.ahead_of({"a": Version(1, 2), "c": Version(4, 0)}) == []


def test_a_withdrawn_set_leaves_its_version_alone():
    home, other = home_with({"x": 1}), AntiEntropy("other", 1)
    copy_to(home, other)
    other.take(home.withdraw("x"))
    assert other.versions()["home"] == (1, 2)
    assert other.items("home") == {}


def test_a_full_set_takes_no_more():
    home, other = home_with({"x": 1, "y": 2}, most_items=2), AntiEntropy("other", 1, most_items=1)
    with pytest.raises(ValueError, match="there are 2 already, and no more is possible"):
        home.put("z", 3)
    home.put("y", 3)
    assert [effect.kind for effect in copy_to(home, other)] == ["refused"]
    assert other.take(Delta("home", Version(2, 1), "a", 1)).kind == "news"
    assert other.take(Delta("home", Version(2, 2), "b", 1)).kind == "refused"
    assert other.take(Delta("home", Version(2, 2), "a", 2)).kind == "news"


@pytest.mark.parametrize("start", [0, 1])
def test_a_part_outside_its_set_is_refused(start):
    other = AntiEntropy("other", 1)
    items = (("a", 1), ("b", 2))
    assert other.take(SnapshotPart("home", Version(1, 1), start, 1, items)).kind == "refused"
    assert len(other) == 0


def test_epochs_begin_at_one():
    with pytest.raises(ValueError, match="epochs begin at 1, not 0"):
        AntiEntropy("home", 0)


def test_views_cannot_be_written():
    home = home_with({"x": 1})
    with pytest.raises(TypeError):
        home.items("home")["y"] = 2


def of_bytes(most):
    return AntiEntropy("other", 1, size=len, most_bytes=most)


def test_a_home_whose_items_are_too_large_together_is_refused_by_changes():
    home, other = AntiEntropy("home", 1), of_bytes(10)
    assert other.take(home.put("x", "1234")).kind == "news"
    assert other.take(home.put("y", "12345")).kind == "news"
    assert other.take(home.put("x", "12345")).kind == "news"
    full = other.version("home")
    assert other.take(home.put("z", "1")) == ("refused", {}, {})
    assert (other.version("home"), len(other)) == (full, 2)
    # What is taken away makes room.
    other = of_bytes(10)
    home = home_with({"x": "1234567890"})
    copy_to(home, other)
    other.take(home.withdraw("x"))
    assert other.take(home.put("y", "0987654321")).kind == "news"


def test_a_home_whose_items_are_too_large_together_is_refused_as_a_whole():
    home = home_with(dict.fromkeys(range(100), "12345"))
    other = of_bytes(499)
    kinds = [effect.kind for effect in copy_to(home, other, most=10)]
    assert kinds[-1] == "refused"
    assert set(kinds[:-1]) == {"waiting"}
    assert len(other) == 0
    assert not other._sets["home"].arrived
    assert [e.kind for e in copy_to(home, of_bytes(500), most=10)][-1] == "news"
