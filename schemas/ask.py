"""
HTTP `/v1/seen`: what a worker answers when it is asked whether it has seen a document or a URL.

    POST /v1/seen       one document, or many  SeenVerdict for each, or ProblemDetails in its place
    GET /v1/seen?url=…  a URL                  SeenPage

A question is a document as in the topic (`DocumentMessage`). Its answer has the fields of a verdict
(`VerdictMessage`) under the same names, except those that only a document in the log has: `source`,
`decided_at` and `index.log_offset`. Instead, it names the offset of the log at which it was given.
Nothing is indexed: if a worker is asked again, it gives the same answer as for a first question.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import models_json_schema

from schemas.document import DocumentMessage
from schemas.fields import OFFSET_MAX, WIRE, DocId, Offset, Timestamp, Url
from schemas.verdict import (
    DuplicateOfMessage,
    FingerprintMessage,
    FormerVersionMessage,
    Hex64,
    KeptApartMessage,
)

PATH = "/v1/seen"
DOCUMENTS_MAX = 100  # of one request
JSON = "application/json"
LINES = "application/x-ndjson"
PROBLEM = "application/problem+json"

Count = Annotated[int, Field(ge=0, le=OFFSET_MAX)]


class AsOf(BaseModel):
    """
    The state of the replica that answered. At the same offset, all workers give the same answer.
    """

    model_config = ConfigDict(**WIRE, title="as_of")

    log_offset: Offset = Field(
        description="Offset of the log's next record: the answer counts all records before it.",
        examples=[88],
    )
    behind: Count | None = Field(
        None,
        description="Records of the log that are not applied yet; null if unknown.",
        examples=[0],
    )


class SeenIndex(BaseModel):
    """What the index knew when it answered."""

    model_config = ConfigDict(**WIRE, title="seen index")

    documents: Count = Field(description="Number of originals in the index.", examples=[1042])
    horizon: Timestamp | None = Field(
        None,
        description="Originals last seen before this time have left the index, UTC. "
        "Left out if none has.",
        examples=["2024-04-01T00:00:00.000Z"],
    )


class SeenVerdict(BaseModel):
    """The verdict that a document would get if it were the next one in the log."""

    model_config = ConfigDict(**WIRE, title="seen verdict")

    doc_id: DocId = Field(
        description="The document's doc_id, given or derived.", examples=["crawl-7/000123"]
    )
    url: Url = Field(
        description="The document's URL.", examples=["https://example.org/print/news/1.html"]
    )
    fetched_at: Timestamp = Field(
        description="Time of the document's capture, UTC.", examples=["2024-05-02T09:30:00.000Z"]
    )
    verdict: Literal["new", "duplicate", "skipped"] = Field(
        description="new: it would be an original. duplicate: it would be one of duplicate_of. "
        "skipped: there is nothing to compare.",
        examples=["duplicate"],
    )
    reason: str | None = Field(
        None,
        max_length=1_000,
        description="Why it would be skipped, in kebab case. Or redelivered: it is new because it "
        "is already an original, with this doc_id and this content.",
        examples=["redelivered"],
    )
    duplicate_of: DuplicateOfMessage | None = Field(
        None, description="The original. Only with the verdict duplicate."
    )
    kept_apart: KeptApartMessage | None = Field(
        None,
        description="Why it would be new although an original is similar enough. Left out if none "
        "is, or if the document is already an original.",
    )
    former_version: FormerVersionMessage | None = Field(
        None, description="The page's version before this one. Left out if none is known."
    )
    fingerprint: FingerprintMessage | None = Field(
        None, description="Only with the verdicts new and duplicate."
    )
    index: SeenIndex = Field(description="What the index knew when it answered.")
    as_of: AsOf = Field(description="The offset of the log at which this was answered.")
    binding: Literal[False] = Field(
        description="Always false, because nothing was indexed, and documents that arrive "
        "meanwhile can change the verdict.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _fields_agree(self) -> SeenVerdict:
        if (self.duplicate_of is not None) != (self.verdict == "duplicate"):
            raise ValueError(
                f"duplicate_of belongs to the verdict duplicate, and only to it, got {self.verdict}"
            )
        return self


class SeenOriginal(BaseModel):
    """An original as the worker's replica holds it."""

    model_config = ConfigDict(**WIRE, title="seen original")

    doc_id: DocId = Field(description="Its doc_id.", examples=["crawl-7/000007"])
    url: Url = Field(description="Its URL.", examples=["https://example.org/news/1.html"])
    fetched_at: Timestamp = Field(
        description="Time of its capture, UTC.", examples=["2024-05-01T12:00:00.500Z"]
    )
    digest: Hex64 = Field(
        description="Digest of its normalised text as 16 lower-case hex digits: equal for the "
        "same tokens in the same order.",
        examples=["5d1c0f9a3b7e2468"],
    )
    fingerprint: Hex64 = Field(
        description="Its fingerprint as 16 lower-case hex digits, as in verdicts.",
        examples=["9f3a61c20b7d44e8"],
    )
    copies: int | None = Field(
        None,
        ge=0,
        le=2**32 - 1,
        description="How many documents have been judged duplicates of it so far, as in "
        "duplicate_of. Answers of older versions lack it.",
        examples=[17],
    )


class SeenPage(BaseModel):
    """The latest original of a URL."""

    model_config = ConfigDict(**WIRE, title="seen page")

    original: SeenOriginal = Field(description="The latest original that had this URL.")
    as_of: AsOf = Field(description="The offset of the log at which this was answered.")
    binding: Literal[False] = Field(
        description="Always false, because the original may be replaced, deleted or expire "
        "at any time.",
        examples=[False],
    )


class ProblemDetails(BaseModel):
    """Why there is no answer (RFC 9457): to a whole request, or to one of its documents."""

    model_config = ConfigDict(**WIRE, title="problem details")

    title: str = Field(
        description="The status in words.", max_length=100, examples=["Unprocessable Content"]
    )
    status: int = Field(
        ge=400,
        le=599,
        description="The HTTP status. For a document in a list, the status it would get alone.",
        examples=[422],
    )
    code: str = Field(
        pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$",
        max_length=64,
        description="Class of the error for machines, kebab case. If a document cannot be judged, "
        "it is the code of its dead letter.",
        examples=["two-bodies"],
    )
    detail: str = Field(
        max_length=1_000,
        description="The error for people: field, value, bound and remedy. "
        "At most 1,000 characters.",
        examples=["needs exactly one of text, html, body_base64, got text and html: leave one out"],
    )
    behind: Count | None = Field(
        None,
        description="Records that are not applied yet, with status 503 while the log is replayed. "
        "Null or left out if unknown.",
        examples=[120],
    )


# Status -> code and when it comes, of problems with a whole request.
PROBLEMS: dict[int, tuple[str, str]] = {
    400: ("bad-request", "The request or its body is malformed."),
    401: ("unauthorized", "The bearer token is missing or wrong."),
    403: ("no-token", "The worker answers beyond its own machine and has no ask_token."),
    404: ("unknown-url", "No original with this URL is in the index, or the path is wrong."),
    405: ("method-not-allowed", "The method is neither GET nor POST."),
    408: ("request-timeout", "The request did not arrive in time."),
    411: ("length-required", "The body has no Content-Length."),
    413: ("oversize", "The body is longer than document_bytes_max, or has too many documents."),
    415: ("unsupported-media-type", f"The body is neither {JSON} nor {LINES}."),
    422: ("invalid-json", "The one document of the body cannot be judged; `code` says why."),
    429: ("busy", "The worker is answering as many questions as it may. Ask again later."),
    431: ("headers-too-large", "The request's head is too long."),
    500: ("failed", "The worker failed on this request with an unexpected error."),
    503: ("replaying", "The worker is still replaying the log, or is about to end."),
}
_RETRIED = (429, 503)
_MODELS = (DocumentMessage, SeenVerdict, SeenPage, ProblemDetails)


def openapi() -> dict[str, Any]:
    """Return the description of `/v1/seen` as OpenAPI 3.1."""
    named = [(model, "validation") for model in _MODELS]
    references, schemas = models_json_schema(
        named,  # type: ignore[arg-type]  # a list of pairs is invariant
        by_alias=True,
        ref_template="#/components/schemas/{model}",
    )
    document, verdict, page, problem = (references[name] for name in named)  # type: ignore[index]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "neardup: ask a worker",
            "version": "1",
            "description": "Asks a worker whether it has seen a document or a URL. Each answer "
            "names the offset of the log up to which the worker has read.",
        },
        "paths": {PATH: {"post": _post(document, verdict, problem), "get": _get(page, problem)}},
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas["$defs"],
        },
    }


def _post(document: Any, verdict: Any, problem: Any) -> dict[str, Any]:
    result = {"anyOf": [verdict, problem]}
    return {
        "operationId": "askDocuments",
        "summary": "Which verdict would these documents get now?",
        "description": "Nothing is indexed. Each document of a list is judged on its own, as if it "
        "were the next one in the log. The answer to one document is one object, to an array an "
        "array of the same length, and to lines as many lines. Blank lines do not count.",
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"anyOf": [document, _list_of(document)]}},
                LINES: {"schema": document},
            },
        },
        "responses": {
            "200": {
                "description": "The answers, in the order of the documents.",
                "content": {
                    JSON: {"schema": {"anyOf": [verdict, _list_of(result)]}},
                    LINES: {"schema": result},
                },
            },
            **_problem_responses(problem, set(PROBLEMS) - {404}),
        },
    }


def _get(page: Any, problem: Any) -> dict[str, Any]:
    return {
        "operationId": "askUrl",
        "summary": "Which original is the latest one with this URL?",
        "parameters": [
            {
                "name": "url",
                "in": "query",
                "required": True,
                "description": "The URL as documents have it, percent-encoded.",
                "schema": SeenOriginal.model_json_schema()["properties"]["url"],
            }
        ],
        "responses": {
            "200": {"description": "The latest original.", "content": {JSON: {"schema": page}}},
            **_problem_responses(problem, set(PROBLEMS) - {411, 413, 415, 422}),
        },
    }


def _list_of(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, "maxItems": DOCUMENTS_MAX}


def _problem_responses(problem: Any, statuses: set[int]) -> dict[str, Any]:
    responses = {}
    for status in sorted(statuses):
        response: dict[str, Any] = {
            "description": PROBLEMS[status][1],
            "content": {PROBLEM: {"schema": problem}},
        }
        if status in _RETRIED:
            response["headers"] = {
                "Retry-After": {
                    "description": "Seconds after which to ask again.",
                    "schema": {"type": "integer", "minimum": 1},
                }
            }
        responses[str(status)] = response
    return responses
