"""
Between messages and values: bytes of Kafka in, documents out; verdicts and dead letters in, bytes out.

One file a topic, as in `schemas`, which defines the format; `documents` and `answers` do the same for batches.
"""

from __future__ import annotations

from worker.shell.messages.answers import VerdictBytes, encode_answers
from worker.shell.messages.dead_letter import DeadLetter, decode_dead_letter, encode_dead_letter
from worker.shell.messages.document import VALUE_BYTES_MAX, decode_document
from worker.shell.messages.documents import decode_documents
from worker.shell.messages.verdict import decode_verdict, encode_verdict

__all__ = [
    "VALUE_BYTES_MAX",
    "DeadLetter",
    "VerdictBytes",
    "decode_dead_letter",
    "decode_document",
    "decode_documents",
    "decode_verdict",
    "encode_answers",
    "encode_dead_letter",
    "encode_verdict",
]
