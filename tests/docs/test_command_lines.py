"""What pages say of `fleet` there is: every command that they show is parsed, none is run."""

import re
import shlex
import subprocess

import click
import pytest

from fleet.cli import commands
from tests.docs import pages

# Of a command's synopsis, or of a value that a reader fills in.
SYNOPSIS = re.compile(r"[…\[\]]|\b[A-Z]{3,}\b")


def found(words: list[str]) -> tuple[click.Command, list[str], click.Context]:
    """The command that some words call, what is left for it, and the group's context."""
    group: click.Command = commands.fleet
    context = click.Context(group, info_name="fleet")
    while isinstance(group, click.Group):
        context = group.make_context(
            context.info_name, words, parent=context.parent, allow_interspersed_args=False
        )
        name, command, words = group.resolve_command(
            context, context._protected_args + context.args
        )
        assert command is not None
        context = click.Context(command, info_name=name, parent=context)
        group = command
    return group, words, context


def parse(words: list[str]) -> None:
    """Parse a command line as it is typed. click.UsageError."""
    command, rest, context = found(words)
    try:
        command.make_context(context.info_name, rest, parent=context.parent)
    except click.BadParameter as error:
        # A reader has the file.
        if "does not exist" not in error.message:
            raise


@pytest.fixture(autouse=True)
def fleets_folder(tmp_path, monkeypatch):
    """Most commands belong into one."""
    (tmp_path / "fleet.toml").touch()
    monkeypatch.setenv("SANDERLING_FLEET", str(tmp_path))


@pytest.mark.parametrize("page", pages.names())
def test_what_a_page_says_to_paste_is_a_command_line(page):
    for blocks in pages.blocks(page).values():
        for call in (call for block in blocks for call in pages.calls(block)):
            program, *words = shlex.split(call)
            if program == "fleet" and not SYNOPSIS.search(call):
                try:
                    parse(words)
                except click.UsageError as error:
                    pytest.fail(f"{call}: {error.format_message()}")


def test_what_is_pasted_first_is_found_without_a_path():
    """A newcomer pastes from README into a shell that knows nothing of `.venv/bin`."""
    lines = [
        line for each in pages.blocks("README.md").values() for b in each for line in b.splitlines()
    ]
    programs = [
        word for line in lines for word in line.split() if re.fullmatch(r"(\S*/)?fleet", word)
    ]
    assert len(programs) > 10
    assert {*programs} == {".venv/bin/fleet"}


@pytest.mark.parametrize("page", pages.names())
def test_what_a_page_mentions_of_a_command_is_there(page):
    """In running text and in synopses commands are cut short, or have words for values."""
    text = (pages.ROOT / page).read_text("utf-8")
    mentioned = [*re.findall(r"`(?:\S*/)?(fleet [^`]*)`", text)]
    mentioned += re.findall(r"(?m)^ {4}(fleet (?:.*\n {5,})*.*[\[A-Z].*)$", text)
    for call in mentioned:
        words = re.findall(r"[^\s\[\]|]+", call)[1:]
        if words[0] == "…":  # any
            continue
        command: click.Command = commands.fleet
        while words and isinstance(command, click.Group) and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        if words and isinstance(command, click.Group):
            assert not re.fullmatch("[a-z][a-z-]+", words[0]), f"{call}: no such command"
        own = words[: words.index("--")] if "--" in words else words
        known = {name for option in command.params for name in option.opts + option.secondary_opts}
        asked = {word.partition("=")[0].strip(",;") for word in own if re.match("--[a-z]", word)}
        assert asked - known - {"--help", "--version"} == set(), call


def test_files_that_commands_of_pages_leave_in_a_checkout_are_ignored():
    """Who has followed a page finds the checkout as clean as before."""
    texts = [(pages.ROOT / name).read_text() for name in pages.names()]
    written = {
        name
        for text in texts
        for name in re.findall(r"\.venv/bin/fleet export .*--(?:csv|parquet) ([\w.]+)", text)
    }
    assert written >= {"floor4.csv", "trend.csv", "floor4.parquet"}
    for folder in re.findall(r"\.venv/bin/pip install \./(docs\S+?)`", "".join(texts)):
        written.add(f"{folder}/build/lib/module.py")
    asked = ["git", "check-ignore", "--no-index", *sorted(written)]
    done = subprocess.run(asked, cwd=pages.ROOT, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        pytest.skip("no checkout of git")
    assert set(done.stdout.splitlines()) == written
