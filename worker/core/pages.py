"""
A batch of documents -> a result for each: extraction one by one, then one fingerprint batch for all texts.

The same function runs in the page processes and, without them, in the worker's own process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from worker.core.document import Document
from worker.core.extract import Extracted, PageLimits, Skipped, extract
from worker.errors import DocumentError

__all__ = ["BatchFingerprinter", "Extractor", "Fingerprinted", "PageResult", "fingerprint_pages"]


class Fingerprinted(NamedTuple):
    """
    What the log needs of a page.

    `fingerprint` and `digest` are in [0, 2**64), 0 included; `features` counts the features that the fingerprint was
    folded from; `kind` is EMPTY, SHORT or FULL (see fingerprint); `method` is one of extract.METHODS.
    """

    fingerprint: int
    features: int
    digest: int
    kind: int
    method: str


PageResult: TypeAlias = Fingerprinted | Skipped | DocumentError
Extractor: TypeAlias = Callable[[Document, PageLimits], Extracted | Skipped]


class BatchFingerprinter(Protocol):
    """What is needed of a Fingerprinter here."""

    def batch(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> Any:
        """Give fingerprints, features, digests and kinds as four arrays, one entry a text."""
        ...

    def warm_up(self) -> None:
        """Load or compile the kernels."""
        ...


def fingerprint_pages(
    documents: Sequence[Document],
    fingerprinter: BatchFingerprinter,
    limits: PageLimits,
    *,
    before_page: Callable[[], None] = lambda: None,
    extractor: Extractor = extract,
) -> list[PageResult]:
    """
    Extract and fingerprint documents; one result for each, in order. A bad page costs itself only.

    Args:
        before_page: called before each extraction and before the fingerprints, as a sign of life.

    Cost: that of `extract` for each document, and one fingerprint batch.
    """
    results: list[PageResult] = []
    texts: list[str] = []
    languages: list[str | None] = []
    positions: list[int] = []
    methods: list[str] = []
    for position, document in enumerate(documents):
        before_page()
        outcome = _extract_guarded(document, limits, extractor)
        if isinstance(outcome, Extracted):
            texts.append(outcome.text)
            languages.append(document.language)
            positions.append(position)
            methods.append(outcome.method)
            outcome = Skipped("unanswered")  # replaced below
        results.append(outcome)
    if texts:
        before_page()
        batch = fingerprinter.batch(texts, languages)
        rows = zip(*(column.tolist() for column in batch), methods, strict=True)
        for position, row in zip(positions, rows, strict=True):
            results[position] = Fingerprinted(*row)
    return results


def _extract_guarded(
    document: Document, limits: PageLimits, extractor: Extractor
) -> Extracted | Skipped | DocumentError:
    """Whatever the page parser throws at one page is the answer to that page."""
    try:
        return extractor(document, limits)
    except DocumentError as error:
        return error
    except MemoryError:
        return DocumentError("extractor-memory", "the page needs more memory than its limit")
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of the parser (Rust) is no Exception
        return DocumentError("extractor-failed", f"{type(error).__name__}: {error}")
