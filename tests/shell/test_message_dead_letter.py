"""A message that could not be judged as a dead letter, and back."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.__main__ import FOLDER
from schemas.dead_letter import DeadLetterHeaders, DeadLetterPointer
from worker.errors import DocumentError
from worker.shell.messages import decode_dead_letter, decode_document, encode_dead_letter
from worker.shell.ports import SourceMessage

ERROR = DocumentError("no-body", "needs exactly one of text, html, body_base64, got none")


@given(
    st.none() | st.binary(),
    st.none() | st.binary(),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.text(max_size=1_500),
)
def test_a_dead_letter_survives_the_wire(
    key: bytes | None, value: bytes | None, partition: int, offset: int, text: str
) -> None:
    """Key and value are copied byte for byte, null stays null, and the headers say whence and why."""
    error = DocumentError("no-body", text)
    message = encode_dead_letter("documents", SourceMessage(partition, offset, key, value), error)
    letter = decode_dead_letter(*message)
    assert letter[:4] == ("documents", partition, offset, "no-body")
    assert letter.text == error.text.encode("utf-8", "replace").decode()
    assert letter[5:] == (key, value, False)
    model = DeadLetterHeaders.model_validate({name: text.decode() for name, text in message[2]})
    assert (model.source_topic, model.source_partition, model.source_offset) == (
        "documents",
        str(partition),
        str(offset),
    )
    assert (model.error_code, model.value_kind) == ("no-body", "original")


def test_an_oversize_message_becomes_a_pointer() -> None:
    """Size and digest stand for the body, the key stays; at the limit the message is still copied."""
    value = b"x" * 999
    assert encode_dead_letter("documents", SourceMessage(3, 7, b"k", value), ERROR, bytes_max=1_000)[:2] == (
        b"k",
        value,
    )
    key, pointer, headers = encode_dead_letter("documents", SourceMessage(3, 7, b"kk", value), ERROR, bytes_max=1_000)
    assert pointer is not None
    model = DeadLetterPointer.model_validate_json(pointer)
    assert (model.topic, model.partition, model.offset, model.value_bytes) == ("documents", 3, 7, 999)
    assert model.value_sha256 == hashlib.sha256(value).hexdigest()
    assert (key, model.key_bytes) == (b"kk", None)
    assert decode_dead_letter(key, pointer, headers).is_pointer
    large = b"k" * 10_000
    for beside in (b"{}", None):  # a key of megabytes is not copied either
        key, pointer, _ = encode_dead_letter("documents", SourceMessage(3, 7, large, beside), ERROR, bytes_max=1_000)
        assert pointer is not None
        model = DeadLetterPointer.model_validate_json(pointer)
        assert (key, model.key_bytes, model.value_bytes) == (None, 10_000, len(beside or b""))


@pytest.mark.parametrize("headers", [None, [], [("neardup.source.topic", b"documents")]])
def test_a_foreign_message_is_refused(headers: list[tuple[str, bytes]] | None) -> None:
    """Without our headers it is not a dead letter, and the missing one is named."""
    with pytest.raises(DocumentError, match=r"header 'neardup\.source"):
        decode_dead_letter(None, None, headers)
    full = encode_dead_letter("documents", SourceMessage(3, 7, b"k", b"{}"), ERROR)[2]
    with pytest.raises(DocumentError, match="invalid-dead-letter"):
        decode_dead_letter(None, None, [*full, ("neardup.source.offset", b"x")])
    with pytest.raises(DocumentError, match="not a dead letter"):
        decode_dead_letter(None, None, [*full, ("neardup.source.offset", None)])


COPIED = [
    path
    for path in sorted((FOLDER / "examples").glob("dead_letter.*.json"))
    if "value_text" in json.loads(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("path", COPIED, ids=lambda path: path.stem)
def test_the_examples_are_what_the_worker_writes(path: Path) -> None:
    """Decoding the message of an example fails as its headers say."""
    example = json.loads(path.read_text(encoding="utf-8"))
    key = None if example["key"] is None else example["key"].encode()
    value = None if example["value_text"] is None else example["value_text"].encode()
    with pytest.raises(DocumentError) as caught:
        decode_document(key, value)
    headers = encode_dead_letter("documents", SourceMessage(3, 8, key, value), caught.value)[2]
    assert {name: text.decode() for name, text in headers} == example["headers"]
