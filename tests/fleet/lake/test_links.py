"""A lake that comes from elsewhere, with links in the place of its folders."""

import pytest

from fleet.cli.commands import run
from fleet.common import exits
from fleet.lake.schema.folder import LinkError, chosen

COMMANDS = (["lake", "ingest"], ["lake", "follow"], ["report"], ["report", "--no-ingest"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_removes_nothing_beside_it(tmp_path, capsys, command):
    lake, mine = tmp_path / "lake", tmp_path / "mine"
    (lake / "landing").mkdir(parents=True)
    (mine / "tables").mkdir(parents=True)
    (mine / "tables" / "one").write_text("mine")
    (lake / "staging").symlink_to(mine)
    assert run([*command, "--lake", str(lake)]) == exits.USAGE
    assert f"fleet: {lake / 'staging'} is a link" in capsys.readouterr().err
    assert (mine / "tables" / "one").read_text() == "mine"


@pytest.mark.parametrize(
    "place", ["kept", "kept/hours/iad=a/date=2026-11-01", "tables/queries/iad=a", "staging/pull"]
)
def test_no_folder_from_which_files_are_removed_may_be_one(tmp_path, place):
    at = tmp_path / "lake" / place
    at.parent.mkdir(parents=True)
    at.symlink_to(tmp_path)
    with pytest.raises(LinkError, match="is a link"):
        chosen(tmp_path / "lake")


def test_the_lake_itself_its_landing_and_its_latest_report_may(tmp_path):
    (tmp_path / "disk" / "reports" / "one").mkdir(parents=True)
    (tmp_path / "disk" / "reports" / "latest").symlink_to("one")
    (tmp_path / "disk" / "landing").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    assert chosen(tmp_path / "lake").root == tmp_path / "lake"
    assert not chosen(tmp_path / "none").root.exists()
