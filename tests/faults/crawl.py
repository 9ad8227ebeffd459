"""
A random crawl of our own making, small and mean: every kind of document that a worker has an answer
for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import orjson

Message = tuple[bytes | None, bytes | None]
"""Key and value."""

_FUNCTION_WORDS = (
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as",
    "was", "with", "on", "by", "at", "from", "this", "be", "are", "not",
)  # fmt: skip
_SYLLABLES = (
    "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe",
    "ri", "so", "tu", "va", "we", "xi", "yo", "zu", "bra", "cle", "dri", "flo",
)  # fmt: skip
_UNREADABLE = (
    b"{",
    b"[]",
    b'{"url": 1}',
    b"\xff\xfe",
    # Its time, too: a topic would give it one, and a file would not.
    b'{"url": "http://x/", "fetched_at": "2024-05-01T12:00:00Z"}',
)


def random_words(rng: random.Random, count: int) -> list[str]:
    """Return text-like words: unrelated texts share the function words only."""
    return [
        rng.choice(_FUNCTION_WORDS)
        if rng.random() < 0.4
        else "".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4)))
        for _ in range(count)
    ]


def message(doc_id: str, url: str, **body: str) -> Message:
    """Return a document as it is fed; its body is `text` or `html`."""
    value = {"doc_id": doc_id, "url": url, "fetched_at": "2024-05-01T12:00:00Z", **body}
    return doc_id.encode(), orjson.dumps(value)


def _message(doc_id: str, number: int, text: str, *, html: bool = False) -> Message:
    body = {"html": f"<html><body><p>{text}</p></body></html>"} if html else {"text": text}
    return message(doc_id, f"https://site-{number % 7}.example/{doc_id}", **body)


def crawl(seed: int, count: int, *, pages: bool = False) -> Iterator[Message]:
    """
    Return `count` messages of every kind, also such as nobody can read; with `pages` some are HTML.
    """
    rng = random.Random(seed)
    texts: dict[str, list[str]] = {}
    for number in range(count):
        known = rng.choice(sorted(texts)) if texts else ""
        draw = rng.random() if len(texts) > 5 else 0.0
        if draw < 0.86:
            doc_id, words = _document(rng, draw, known, texts.get(known, []), f"d{number}")
            texts[doc_id] = words
            yield _message(doc_id, number, " ".join(words), html=pages and rng.random() < 0.3)
        elif draw < 0.90:
            yield known.encode(), None
        elif draw < 0.96:
            yield _message(
                f"d{number}", number, " ".join(random_words(rng, 1)) if draw < 0.93 else ""
            )
        else:
            yield f"d{number}".encode(), rng.choice(_UNREADABLE)


def _document(
    rng: random.Random, draw: float, known: str, text: list[str], doc_id: str
) -> tuple[str, list[str]]:
    """Return doc_id and words of one document: an original, or something like the known one."""
    if draw < 0.45:
        return doc_id, random_words(rng, rng.randint(60, 150))
    if draw < 0.60:  # the same again, elsewhere
        return doc_id, text
    if draw < 0.78:  # nearly the same
        words = list(text)
        for _ in range(rng.randint(1, 2)):
            words[rng.randrange(len(words))] = "".join(rng.choices(_SYLLABLES, k=3))
        return doc_id, words
    if draw < 0.82:  # delivered again
        return known, text
    return known, random_words(rng, 80)  # the same document with other content
