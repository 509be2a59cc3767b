"""From bare Debian to an answered query, and once more."""

from __future__ import annotations

from tests.hosts.site import outcomes, report
from tests.hosts.testbed import IAD, SCHEDULER

ALL = {f"{IAD}/{name}" for name in ("master", *(f"n{number}" for number in range(1, 9)))}


def test_from_bare_debian_to_an_answered_query(site, first):
    assert first.status == 0, first
    assert outcomes(first) == dict.fromkeys(ALL, "changed")
    asked = []
    for iad in (IAD, SCHEDULER):
        asked.append(site.desk.fleet("query", "--iad", iad, "--area", "b4", "--last", "1m"))
        assert asked[-1].status == 0, asked[-1]
        assert "9 of 9 areas" in asked[-1].out
    site.assert_healthy()
    answer = next(line for line in asked[-1].out.splitlines() if "of 9 areas" in line)
    site.results.tell(
        f"bare Debian on {len(ALL)} hosts; `fleet keys init`, `{first.command}`, "
        f"`{asked[-1].command}`",
        (first.err.splitlines()[-1], answer),
        f"every host runs {site.release}",
    )


def test_again_changes_nothing(fleet):
    before = {name: host.run("ls", "-lR", "--full-time", "/etc/sanderling", "/opt/sanderling")
              for name, host in fleet.hosts.items()}  # fmt: skip
    again = fleet.deploy("--json")
    assert again.status == 0, again
    assert outcomes(again) == dict.fromkeys(ALL, "unchanged")
    assert "nothing to do" in again.err
    after = {name: host.run("ls", "-lR", "--full-time", "/etc/sanderling", "/opt/sanderling")
             for name, host in fleet.hosts.items()}  # fmt: skip
    assert after == before
    fleet.results.tell(
        "the same once more",
        again.err.splitlines()[-1],
        f"no file changed, status {again.status}",
    )


def test_dry_says_what_would_be_done(fleet):
    host = fleet.hosts["n1"]
    (host.root / "etc/sanderling/edge.toml").write_text("# by hand\n")
    dry = fleet.deploy("--dry")
    assert dry.status == 0
    assert "n1" in dry.out
    assert "edge.toml" in dry.out
    assert "n2" not in dry.out
    assert (host.root / "etc/sanderling/edge.toml").read_text() == "# by hand\n"
    mended = fleet.deploy("--json")
    assert outcomes(mended) == dict.fromkeys(ALL, "unchanged") | {f"{IAD}/n1": "changed"}
    assert report(mended)["hosts"]
