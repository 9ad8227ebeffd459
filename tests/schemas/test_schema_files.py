"""
The JSON Schema files and asyncapi.yaml are what the models and settings say, the examples what the
models take.

And times on the wire.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from schemas import fields
from schemas.__main__ import FOLDER, MODELS, render
from schemas.fields import (
    TIMESTAMP_MS_MAX,
    TIMESTAMP_MS_MIN,
    TimestampError,
    format_timestamp,
    parse_timestamp,
)
from worker.core import document as core
from worker.settings import Settings

EXAMPLES = sorted((FOLDER / "examples").glob("*.json"))
API: dict[str, Any] = yaml.safe_load((FOLDER / "asyncapi.yaml").read_text(encoding="utf-8"))
TOPICS = {"document": "documents", "verdict": "verdicts", "dead_letter": "documents.dead-letter"}


def _validator(name: str) -> Any:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize("name", MODELS)
def test_schema_files_are_current(name: str) -> None:
    """Each *.schema.json is what `python -m schemas` writes today."""
    assert (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8") == render(name), (
        "run `python -m schemas`"
    )


@pytest.mark.parametrize("name", MODELS)
def test_descriptions_are_one_line(name: str) -> None:
    """A description has no line break, however the docstring that it comes from is wrapped."""
    schema = MODELS[name].model_json_schema(by_alias=True)
    messages = [schema, *schema.get("$defs", {}).values()]
    descriptions = [message["description"] for message in messages if "description" in message]
    assert descriptions
    assert not [text for text in descriptions if "\n" in text]


@pytest.mark.parametrize("name", MODELS)
def test_every_field_is_described_and_has_valid_examples(name: str) -> None:
    """
    No field is left to guessing; of one that is itself a message the fields have the examples.
    """
    check_fields(json.loads(render(name)))


def check_fields(schema: dict[str, Any]) -> None:
    """Hold that each field of a schema, and of the messages in it, is described and has examples."""
    definitions = schema.get("$defs", {})
    for part in (schema, *definitions.values()):
        assert part["description"]
        for path, field in part["properties"].items():
            is_message = "$ref" in json.dumps(field)
            assert ("description" in field or "$ref" in field) and (
                "examples" in field or is_message
            ), path
            for shown in field.get("examples", ()):
                jsonschema.Draft202012Validator({**field, "$defs": definitions}).validate(shown)


def test_bounds_are_those_of_the_core() -> None:
    """
    The wire format states its own bounds, because it knows nothing of the worker: they are the
    same.
    """
    assert fields.DOC_ID_BYTES_MAX == core.DOC_ID_BYTES_MAX
    assert fields.URL_BYTES_MAX == core.URL_BYTES_MAX


def test_there_are_several_examples_of_each_message() -> None:
    """Every topic has at least three, and nothing else lies in the folder."""
    kinds = [path.name.split(".")[0] for path in EXAMPLES]
    assert set(kinds) == set(TOPICS)
    assert all(kinds.count(kind) >= 3 for kind in TOPICS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_valid_and_round_trip(path: Path) -> None:
    """An example satisfies its JSON Schema, and its model writes it back as it was."""
    example = json.loads(path.read_text(encoding="utf-8"))
    kind = path.name.split(".")[0]
    assert example["topic"] == TOPICS[kind]
    if kind == "dead_letter":
        _round_trip("dead_letter_headers", example["headers"])
        if example["headers"]["neardup.value"] == "pointer":
            _round_trip("dead_letter_pointer", example["value"])
    elif example["value"] is None:
        assert kind == "document"
        assert example["key"]
    else:
        _round_trip(kind, example["value"])


def _round_trip(name: str, message: dict[str, Any]) -> None:
    _validator(name).validate(message)
    model = MODELS[name].model_validate_json(json.dumps(message))
    assert model.model_dump(mode="json", by_alias=True, exclude_none=True) == message
    assert MODELS[name].model_validate(model.model_dump(by_alias=True)) == model


PAGE = {"url": "https://example.org/", "fetched_at": "2024-05-01T12:00:00Z"}


def test_an_unknown_field_is_ignored_and_a_null_body_is_no_body() -> None:
    """
    Producers may say more than we read; a field that is null counts as absent, in the schema too.
    """
    message = {**PAGE, "text": "a", "html": None, "depth": 3}
    _validator("document").validate(message)
    assert "depth" not in MODELS["document"].model_validate(message).model_dump()


@pytest.mark.parametrize(
    "bodies", [(), ("text", "html"), ("text", "body_base64"), ("text", "html", "body_base64")]
)
def test_exactly_one_body(bodies: tuple[str, ...]) -> None:
    """Neither the schema nor the model takes a document with no body or with two."""
    message = PAGE | dict.fromkeys(bodies, "YQ==")
    assert not _validator("document").is_valid(message)
    with pytest.raises(ValueError, match="exactly one of text, html, body_base64"):
        MODELS["document"].model_validate(message)


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for name, value in part.items():
            yield from [value] if name == "$ref" else _references(value)


def test_the_topics_of_asyncapi_are_the_defaults_of_the_settings() -> None:
    """
    A channel for each topic, which somebody reads or writes, and the address of the broker that we
    start.
    """
    topics = {
        field.default for name, field in Settings.model_fields.items() if name.startswith("topic_")
    }
    assert {channel["address"] for channel in API["channels"].values()} == topics
    assert API["servers"]["local"]["host"] == Settings.model_fields["bootstrap"].default
    used = {
        operation["channel"]["$ref"].rsplit("/", 1)[1] for operation in API["operations"].values()
    }
    assert used == set(API["channels"])


def test_every_reference_of_asyncapi_leads_somewhere() -> None:
    """To a part of this file, or to a schema file; and each schema file is used."""
    references = set(_references(API))
    for reference in references:
        if reference.startswith("#/"):
            reduce(getitem, reference[2:].split("/"), API)
    files = {reference for reference in references if not reference.startswith("#/")}
    assert files == {f"./{name}.schema.json" for name in MODELS}


TIMES_MS = st.integers(TIMESTAMP_MS_MIN, TIMESTAMP_MS_MAX)


@given(TIMES_MS)
@example(TIMESTAMP_MS_MIN)
@example(TIMESTAMP_MS_MAX)
def test_a_time_survives_writing_and_reading(timestamp_ms: int) -> None:
    """
    format_timestamp and parse_timestamp are each other's inverse, and say what the standard library
    says.
    """
    text = format_timestamp(timestamp_ms)
    assert parse_timestamp(text) == timestamp_ms
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    assert text == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@given(st.integers(86_400_000, TIMESTAMP_MS_MAX - 86_400_000), st.integers(-1439, 1439))
def test_an_offset_is_taken_off(timestamp_ms: int, offset_minutes: int) -> None:
    """The same moment written in any time zone is the same time."""
    zone = timezone(timedelta(minutes=offset_minutes))
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)).astimezone(
        zone
    )
    assert parse_timestamp(moment.isoformat(timespec="milliseconds")) == timestamp_ms


@given(st.text() | st.from_regex(r"[0-9]{4,5}-[0-9]{2}-[0-9]{2}(T[0-9:.Z+-]*)?", fullmatch=True))
@example("2024-05-01T12:00:00Z\n")
@example("٢٠٢٤-05-01T12:00:00Z")
@example("2024-02-30T12:00:00Z")
@example("2024-05-01T12:00:00+99:99")
def test_any_text_is_a_time_or_a_timestamp_error(text: str) -> None:
    """Nothing else comes out, and a time that is taken lies within the bounds."""
    with contextlib.suppress(TimestampError):
        assert TIMESTAMP_MS_MIN <= parse_timestamp(text) <= TIMESTAMP_MS_MAX


@pytest.mark.parametrize(
    ("text", "out_of_range", "says"),
    [
        ("2024-05-01", False, "a date without a time of day"),
        ("2024-05-01T12:00:00", False, "a time without an offset: add Z"),
        (
            "0000-01-01T00:00:00Z",
            True,
            "between 1970-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z",
        ),
        ("0001-01-01T00:00:00Z", True, "between 1970"),
        ("1969-12-31T23:59:59.999Z", True, "between 1970"),
        ("1970-01-01T00:00:00+00:01", True, "between 1970"),
        ("9999-12-31T23:59:59-00:01", True, "between 1970"),
        ("99999-01-01T00:00:00Z", True, "between 1970"),
        ("+12024-01-01T00:00:00Z", True, "between 1970"),
        ("2024-13-01T00:00:00Z", False, "month"),
        ("20240501120000", False, "not an ISO 8601 date-time"),
        ("yesterday", False, "write it like 2024-05-01T12:00:00Z"),
        ("", False, "not an ISO 8601 date-time"),
        ("2024-05-01T12:00:00Z" * 100_000, False, "not an ISO 8601 date-time"),
    ],
)
def test_a_refusal_names_the_rule(text: str, out_of_range: bool, says: str) -> None:
    """
    The error tells a date out of bounds from a text that is no date, and says what to write
    instead.
    """
    with pytest.raises(TimestampError) as caught:
        parse_timestamp(text)
    assert caught.value.out_of_range is out_of_range
    assert says in str(caught.value)
    assert len(str(caught.value)) < 200


def test_what_is_finer_than_a_millisecond_is_cut() -> None:
    """
    Nine digits, as in a WARC-Date, are read; the time is never rounded up into the next second.
    """
    assert parse_timestamp("1970-01-01T00:00:01.999999999Z") == 1_999
    assert parse_timestamp("1970-01-01T00:01Z") == 60_000
