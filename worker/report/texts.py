"""The texts of some documents, and the languages of a sample, from the files that were judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field

import xxhash

from worker.core.document import Deletion
from worker.core.extract import Skipped, extract
from worker.core.language import detect
from worker.settings import Settings
from worker.shell.files.archives import Record
from worker.shell.messages import decode_document

LANGUAGES_SAMPLE = 2_000  # documents whose language is looked for: shares within 2.2 %, some 3 ms each
_CHARACTERS_READ = 3_000  # of a text, for its language


@dataclass
class Read:
    """What a report takes from documents."""

    texts: dict[str, str] = field(default_factory=dict)  # by doc_id, of those that were wanted
    languages: Counter[str] = field(default_factory=Counter)  # of the sample; "" where too few words tell
    named: dict[str, str | None] = field(default_factory=dict)  # of the texts, as the messages name them


def read_texts(records: Iterable[Record], wanted: Set[str], settings: Settings, sample_of: int | None = None) -> Read:
    """
    Read documents once: the texts of those that are wanted, and the languages of a sample if one is asked for.

    Of a doc_id that comes again the last text counts. What cannot be read is passed over: it has a dead letter.

    Args:
        wanted: doc_ids.
        sample_of: how many documents there are, about; of more than LANGUAGES_SAMPLE a part is the sample.

    Cost: that of reading the files, and of the text of each document that is wanted or in the sample.
    """
    found = Read()
    for record in records:
        doc_id = "" if record.key is None else record.key.decode("utf-8", "replace")
        is_sampled = (
            sample_of is not None and xxhash.xxh3_64_intdigest(record.key or b"") % max(sample_of, 1) < LANGUAGES_SAMPLE
        )
        if doc_id not in wanted and not is_sampled:
            continue
        text, language = text_of(record.key, record.value, settings)
        if text is None:
            continue
        if doc_id in wanted:
            found.texts[doc_id] = text
            found.named[doc_id] = language
        if is_sampled:
            found.languages[_primary(language) or detect(text[:_CHARACTERS_READ]) or ""] += 1
    return found


def text_of(key: bytes | None, value: bytes | None, settings: Settings) -> tuple[str | None, str | None]:
    """Return the text of a message as a worker sees it, None where there is none, and the language that it names."""
    try:
        document = decode_document(key, value, value_bytes_max=settings.document_bytes_max)
        if isinstance(document, Deletion):
            return None, None
        extracted = extract(document, settings.text_characters_max)
    except Exception:  # whatever it is, it costs this text
        return None, None
    return (None if isinstance(extracted, Skipped) else extracted.text), document.language


def _primary(language: str | None) -> str | None:
    """Return the first part of a language tag, if it looks like one: "de" of "de-AT"."""
    code = (language or "").replace("_", "-").partition("-")[0].strip().lower()
    return code if code.isascii() and code.isalpha() and 2 <= len(code) <= 3 else None
