"""
Conversion between Kafka's bytes and values: documents in, verdicts and dead letters out.

One file a topic, as in `schemas`, which defines the format.
"""

from __future__ import annotations

from worker.shell.messages.dead_letter import DeadLetter, decode_dead_letter, encode_dead_letter
from worker.shell.messages.documents import (
    VALUE_BYTES_MAX,
    DocumentColumns,
    decode_document,
    decode_documents,
    oversize,
)
from worker.shell.messages.verdict_fields import FIELDS, URL, VerdictField, strings
from worker.shell.messages.verdicts import (
    JudgedAnswers,
    SeenBytes,
    VerdictBytes,
    decode_verdict,
    encode_answers,
    encode_seen,
    encode_verdict,
    message_fields,
    verdict_of,
)

__all__ = [
    "FIELDS",
    "URL",
    "VALUE_BYTES_MAX",
    "DeadLetter",
    "DocumentColumns",
    "JudgedAnswers",
    "SeenBytes",
    "VerdictBytes",
    "VerdictField",
    "decode_dead_letter",
    "decode_document",
    "decode_documents",
    "decode_verdict",
    "encode_answers",
    "encode_dead_letter",
    "encode_seen",
    "encode_verdict",
    "message_fields",
    "oversize",
    "strings",
    "verdict_of",
]
