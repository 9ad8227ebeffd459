"""Messages of every schema that subscribers have met: they stay readable for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from worker.shell.messages import decode_verdict, encode_verdict

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
