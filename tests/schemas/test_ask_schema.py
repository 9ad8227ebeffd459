"""ask.openapi.json is what the models of `/v1/seen` say, and whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, ValidationError

from schemas.__main__ import OPENAPI, render_openapi
from schemas.ask import (
    PROBLEMS,
    AsOf,
    ProblemDetails,
    SeenIndex,
    SeenOriginal,
    SeenPage,
    SeenVerdict,
)
from schemas.verdict import IndexMessage, VerdictMessage
from tests.schemas.test_schema_files import check_fields

API: dict[str, Any] = json.loads(OPENAPI.read_text(encoding="utf-8"))
MODELS = (AsOf, ProblemDetails, SeenIndex, SeenOriginal, SeenPage, SeenVerdict)


def test_the_openapi_file_is_current() -> None:
    """ask.openapi.json is what `python -m schemas` writes today."""
    assert OPENAPI.read_text(encoding="utf-8") == render_openapi(), "run `python -m schemas`"


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for name, value in part.items():
            yield from [value] if name == "$ref" else _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


def test_every_reference_leads_to_a_schema_and_every_schema_is_used() -> None:
    """Components are neither missing nor left over, and each is a valid JSON Schema."""
    references = set(_references(API))
    for reference in references:
        schema = reduce(getitem, reference.removeprefix("#/").split("/"), API)
        jsonschema.Draft202012Validator.check_schema(schema)
    named = {reference.rsplit("/", 1)[1] for reference in references}
    assert named == set(API["components"]["schemas"])


@pytest.mark.parametrize("model", MODELS)
def test_every_field_is_described_and_has_valid_examples(model: type[BaseModel]) -> None:
    """No field is left to guessing; one that is itself a message has its examples there."""
    schema = model.model_json_schema()
    assert "\n" not in schema["description"]
    check_fields(schema)


def test_the_names_are_those_of_a_verdict() -> None:
    """A field of an answer that verdicts have, too, has the same name there; the rest is new."""
    assert set(SeenVerdict.model_fields) - set(VerdictMessage.model_fields) == {"as_of", "binding"}
    assert set(VerdictMessage.model_fields) - set(SeenVerdict.model_fields) == {
        "source",
        "decided_at",
    }
    assert set(IndexMessage.model_fields) - set(SeenIndex.model_fields) == {"log_offset"}


def test_every_problem_is_described_for_the_method_that_has_it() -> None:
    """Each status of a problem stands at POST or GET; what says when to come again says so."""
    post, get = API["paths"]["/v1/seen"]["post"], API["paths"]["/v1/seen"]["get"]
    statuses = {int(status) for status in {*post["responses"], *get["responses"]}} - {200}
    assert statuses == set(PROBLEMS)
    for status in ("429", "503"):
        assert "Retry-After" in post["responses"][status]["headers"]


def test_an_answer_never_binds_and_names_an_original_only_as_a_duplicate() -> None:
    """`binding` takes nothing but false, `duplicate_of` belongs to a duplicate."""
    answer = {
        "doc_id": "a",
        "url": "https://example.org/",
        "fetched_at": "2024-05-01T12:00:00Z",
        "verdict": "new",
        "index": {"documents": 0},
        "as_of": {"log_offset": 0, "behind": None},
        "binding": False,
    }
    assert SeenVerdict.model_validate(answer).binding is False
    for wrong in ({"binding": True}, {"verdict": "duplicate"}):
        with pytest.raises(ValidationError):
            SeenVerdict.model_validate({**answer, **wrong})
