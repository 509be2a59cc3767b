"""Matching of areas as it is defined: each with each."""

from agent.wire.areas import covers, overlaps


def within(asked, declared):
    """The declared areas that some asked area covers, each once, in the order declared."""
    return list(dict.fromkeys(area for area in declared if any(covers(a, area) for a in asked)))


def without(asked, declared):
    """The asked areas that cover no declared one."""
    return [a for a in asked if not any(covers(a, area) for area in declared)]


def covering(asked, nodes):
    """What `NodeTable.covering` tells of nodes, each a name and its areas."""
    found = [(name, own) for name, areas in nodes if (own := within(asked, areas))]
    return found, without(asked, [area for _, areas in nodes for area in areas])


def inside(asked, offered):
    """What a service that offers these areas makes of those asked: the part that it is about, and
    what lies outside."""
    areas, outside = [], []
    for area in asked:
        if any(covers(o, area) for o in offered):
            areas.append(area)
        elif below := within([area], offered):
            areas += below
        else:
            outside.append(area)
    return tuple(dict.fromkeys(areas)), tuple(outside)


def expected(asked, declared):
    """What an IAD that stays silent leaves unanswered."""
    below = within(asked, declared)
    return below + [a for a in asked if a not in below and not within([a], declared)]


def all_that_overlap(members, areas):
    """Whom a query for these areas goes to, of (name, areas) of each member, with what is asked and
    expected; and the areas that nobody offers."""
    areas = list(dict.fromkeys(areas))
    matches = []
    for name, own in members:
        asked = [a for a in areas if any(overlaps(a, d) for d in own)]
        if asked:
            matches.append((name, tuple(asked), expected(asked, own)))
    covered = {area for _, asked, _ in matches for area in asked}
    return matches, [a for a in areas if a not in covered]


def common_areas(asked, offered):
    """The finer area of each pair that overlaps, without those that another one covers."""
    both = {a if covers(o, a) else o for a in asked for o in offered if overlaps(a, o)}
    return tuple(sorted(a for a in both if not any(o != a and covers(o, a) for o in both)))
