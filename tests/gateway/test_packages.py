"""What the gateway needs at run time beside what is there anyway."""

from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

MOST = 6
NEWEST = {"python_version": "3.13", "python_full_version": "3.13.0"}


def needed(*extras):
    """Every package that Sanderling with these extras brings, on the newest Python."""
    found = set()

    def take(name, extras):
        for text in requires(name) or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker and not any(marker.evaluate(NEWEST | {"extra": each}) for each in extras):
                continue
            each = canonicalize_name(requirement.name)
            if each not in found:
                found.add(each)
                take(each, ("", *requirement.extras))

    take("sanderling", ("", *extras))
    return found - {"sanderling"}


def test_a_gateway_brings_at_most_six_packages():
    new = needed("cli", "drivers", "gateway") - needed("cli", "drivers")
    assert {"starlette", "uvicorn", "paho-mqtt"} <= new
    assert len(new) <= MOST, sorted(new)
    # Without drivers a seventh comes, as the decision says.
    assert needed("cli", "gateway") - needed("cli") - new == {"typing-extensions"}
