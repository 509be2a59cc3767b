"""Documents made from the code are up to date, and say what the wire really carries."""

import json
import re
from itertools import chain, count
from pathlib import Path

import jsonschema
import pytest

from agent.wire.codec import JSON, Decoder, encode
from agent.wire.master_config import MasterScheduling
from agent.wire.unions import ClientReply, PublicRequest
from tests.wire.samples import SAMPLES
from tools.make_docs import DOCS, DOCUMENTS

WIRE = (DOCS / "understand/wire.md").read_text()
SCHEMA = json.loads((DOCS / "understand/wire.schema.json").read_text())


def validator(name: str) -> jsonschema.Draft202012Validator:
    """Of one message. Without a check of the schema, which takes seconds."""
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_what_the_code_says(name):
    assert (DOCS / name).read_text() == DOCUMENTS[name](), "run `make docs` and commit"


def test_the_window_of_response_times_is_that_of_the_configuration():
    window = MasterScheduling()
    line = f"The last {window.window_samples:,} samples of the last {window.window_s:,.0f} s"
    assert line in (DOCS / "understand/deadlines.md").read_text()


@pytest.mark.parametrize("name", SAMPLES)
def test_every_message_on_the_wire_is_valid_by_the_schema(name):
    body = json.loads(encode(SAMPLES[name], JSON)[3:])
    by_schema = validator(type(SAMPLES[name]).__name__)
    by_schema.validate(body)
    assert not by_schema.is_valid({**body, "type": "nonsense"})


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_examples_in_the_wire_page_are_valid():
    examples = re.findall(r"```json\n(.*?)```", WIRE, re.DOTALL)
    assert len(examples) == 6
    for example in examples:
        validator("AreaResult").validate(json.loads(example))


def test_the_handshake_in_the_wire_page_is_what_is_sent():
    """Each line is read as its receiver would, and is what its sender would write."""
    lines = re.findall(r"^([→←]) (\{.*\})$", WIRE, re.MULTILINE)
    assert "".join(direction for direction, _ in lines) == "→←←→←→←→←→←→←"
    for direction, line in lines:
        union = PublicRequest if direction == "→" else ClientReply
        message, _ = Decoder(union).decode(b"10J" + line.encode())
        assert json.loads(encode(message, JSON)[3:]) == json.loads(line)


def test_the_wire_page_names_every_reason_and_message():
    text = (DOCS / "understand/wire.schema.json").read_text()
    words = set(re.findall(r'"enum": \[\s*"(\w+)"\s*\]', text))
    assert words
    for word in words - {"answer", "iad_status", "operator_error", "query", "task"}:
        assert f"`{word}`" in WIRE, word


def anchors(page: Path) -> set[str]:
    """The fragments that GitHub makes of a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"\]\([^)]*\)", "", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        several = (f"{slug}-{number}" for number in count(1))
        found.add(next(each for each in chain([slug], several) if each not in found))
    return found


def test_links_between_documents_lead_somewhere():
    root = DOCS.parent
    folders = [*root.glob("sensors/*/README.md"), *root.glob("processors/*/README.md")]
    for page in [*root.glob("*.md"), *DOCS.rglob("*.md"), *folders]:
        for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
            if "://" not in target:
                there = page.parent / target if target else page
                assert there.exists(), f"{page}: {target}"
                if anchor and there.suffix == ".md":
                    assert anchor in anchors(there), f"{page}: {target}#{anchor}"
