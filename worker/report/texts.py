"""The texts of some documents, and the languages of a sample, from the files that were judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

import xxhash

from worker.core.document import Deletion
from worker.core.extract import Skipped, extract
from worker.core.language import detect
from worker.errors import DocumentError
from worker.settings import Settings
from worker.shell.files.archives import Record
from worker.shell.messages import decode_document

__all__ = ["LANGUAGES_SAMPLE", "Read", "read_texts"]

LANGUAGES_SAMPLE = 2_000  # documents whose language is looked for: shares within 2.2 %, some 3 ms each
_CHARACTERS_READ = 3_000  # of a text, for its language


@dataclass
class Read:
    """What a report takes from documents."""

    texts: dict[str, str] = field(default_factory=dict)  # by doc_id, of those that were wanted
    languages: Counter[str] = field(default_factory=Counter)  # of the sample; "" where too few words tell


def read_texts(records: Iterable[Record], wanted: Set[str], documents: int, settings: Settings) -> Read:
    """
    Read documents once: the texts of those that are wanted, and the languages of a sample.

    Of a doc_id that comes again the last text counts. What cannot be read is passed over: it has a dead letter.

    Args:
        wanted: doc_ids.
        documents: how many there are, about; of more than LANGUAGES_SAMPLE a part is the sample.

    Cost: that of reading the files, and of the text of each document that is wanted or in the sample.
    """
    found = Read()
    share = max(documents, 1)
    for record in records:
        doc_id = "" if record.key is None else record.key.decode("utf-8", "replace")
        is_sampled = xxhash.xxh3_64_intdigest(record.key or b"") % share < LANGUAGES_SAMPLE
        if doc_id not in wanted and not is_sampled:
            continue
        text, language = _text(record, settings)
        if text is None:
            continue
        if doc_id in wanted:
            found.texts[doc_id] = text
        if is_sampled:
            found.languages[language or detect(text[:_CHARACTERS_READ]) or ""] += 1
    return found


def _text(record: Record, settings: Settings) -> tuple[str | None, str | None]:
    try:
        document = decode_document(record.key, record.value, value_bytes_max=settings.document_bytes_max)
        if isinstance(document, Deletion):
            return None, None
        extracted = extract(document, settings.text_characters_max)
    except DocumentError:
        return None, None
    return (None if isinstance(extracted, Skipped) else extracted.text), _primary(document.language)


def _primary(language: str | None) -> str | None:
    """Return the first part of a language tag, if it looks like one: "de" of "de-AT"."""
    code = (language or "").replace("_", "-").partition("-")[0].strip().lower()
    return code if code.isascii() and code.isalpha() and 2 <= len(code) <= 3 else None
