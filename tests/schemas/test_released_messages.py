"""Messages of every schema that subscribers have met: they stay readable for ever."""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import orjson
import pytest

from worker.shell.messages import decode_dead_letter, decode_verdict, encode_verdict
from worker.shell.messages.documents import decode_document

# A file for each schema that added a field, `verdicts-N.jsonl`, with a verdict of each kind. A line
# is never changed.
RELEASED = [
    pytest.param(line, id=f"{path.stem}, line {number}")
    for path in sorted((Path(__file__).parent / "data").glob("verdicts-*.jsonl"))
    for number, line in enumerate(path.read_bytes().splitlines(), 1)
]


def test_there_are_messages_of_each_kind() -> None:
    """Those of the first schema have every verdict, and every object that one may hold."""
    lines = (Path(__file__).parent / "data" / "verdicts-1.jsonl").read_bytes().splitlines()
    first = [orjson.loads(line) for line in lines]
    assert {message["verdict"] for message in first} == {"new", "duplicate", "skipped", "deleted"}
    assert {name for message in first for name in message} >= {"former_version", "duplicate_of"}


@pytest.mark.parametrize("line", RELEASED)
def test_a_released_message_is_read_and_nothing_of_it_is_lost(line: bytes) -> None:
    """Every field that it has is there again, with its value, when it is written as now."""
    _, written = encode_verdict(decode_verdict(line))
    assert _parts(orjson.loads(line)) <= _parts(orjson.loads(written))


def _parts(fields: dict[str, Any], prefix: str = "") -> set[tuple[str, str]]:
    """Return the path and the value of each field, as JSON."""
    found = set()
    for name, value in fields.items():
        if isinstance(value, dict):
            found |= _parts(value, f"{prefix}{name}.")
        else:
            found.add((f"{prefix}{name}", orjson.dumps(value).decode()))
    return found


def _lines(kind: str) -> list[dict[str, Any]]:
    """Return the messages of a kind with what was read from each when it was released."""
    paths = sorted((Path(__file__).parent / "data").glob(f"{kind}-*.jsonl"))
    return [orjson.loads(line) for path in paths for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("line", _lines("documents"), ids=lambda line: str(line["key"]))
def test_a_document_of_a_released_schema_is_read_as_it_was(line: dict[str, Any]) -> None:
    """A writer that is never changed goes on: the same document, the same derived doc_id."""
    key = None if line["key"] is None else line["key"].encode()
    value = None if line["value"] is None else orjson.dumps(line["value"])
    read = decode_document(key, value, timestamp_ms=line["timestamp_ms"])._asdict()
    if isinstance(read.get("body"), bytes):
        read["body_base64"] = b64encode(read.pop("body")).decode()
    if "kind" in read:
        read["kind"] = read["kind"].name
    assert line["read"].items() <= read.items()


@pytest.mark.parametrize("line", _lines("dead-letters"), ids=lambda line: line["read"]["code"])
def test_a_released_dead_letter_is_read_as_it_was(line: dict[str, Any]) -> None:
    """Source, reason, and the message, which is a document's or a pointer."""
    key, value = (
        None if line[name] is None else b64decode(line[name]) for name in ("key", "value")
    )
    headers = [(name, text.encode()) for name, text in line["headers"].items()]
    letter = decode_dead_letter(key, value, headers)
    assert {name: getattr(letter, name) for name in line["read"]} == line["read"]
    assert (letter.key, letter.value) == (key, value)
