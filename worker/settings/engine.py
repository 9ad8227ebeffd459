"""
Settings that decide verdicts: the fingerprint, the search and how long originals stay.

A log has one value of each: documents that were judged by different rules cannot be compared.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, model_validator
from pydantic_settings import NoDecode

from worker.core import stopwords
from worker.core.definition import Parameters
from worker.core.planner import blocks_of, size_text
from worker.core.search import SearchRules
from worker.log.preferred import Preferred
from worker.log.rules import Retention
from worker.settings.declaration import setting


def _split(value: Any) -> Any:
    """Read "1,2" as flags and the environment have it; a list, as a file has it, stays."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


@lru_cache(maxsize=8)
def _own_words(path: Path) -> frozenset[str]:
    """Return the words of a user's list, read once a process."""
    try:
        return stopwords.load_stopwords(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"stopwords_file {path} cannot be read: {error.strerror or error}"
        ) from error
    except ValueError as error:
        raise ValueError(f"stopwords_file {path}: {error}") from error


_DEFAULT = Parameters()
_SEARCH = SearchRules()
# How many originals are listed under one prefix. A smaller limit misses copies, a larger one has a
# document of a crowded prefix cost more; nobody has a reason of their own for either.
PREFIX_MAX = _SEARCH.prefix_max


class EngineSettings(BaseModel):
    """
    Settings of the engine: what a fingerprint is, what counts as near, how long originals stay. A
    log has one value of each.
    """

    search_mode: Literal["directed", "exact"] = setting(
        _SEARCH.mode,
        "choice",
        (
            "How an original is searched for. directed looks up the likeliest prefixes "
            "and takes a second look at each candidate. exact finds everything within "
            "max_distance, which should then be 3 to 7."
        ),
    )
    similarity_min: float | None = setting(
        None,
        "Jaccard index",
        (
            "Similarity of copies, 0 to 1. This is the Jaccard index that the phrases (four "
            "tokens in a row) of a duplicate and its original must reach. It is estimated with an "
            "error of .02 to .035. Above 0.54, a short text in which one word was replaced is no "
            "duplicate. With 0, everything that the search finds is a duplicate."
        ),
        low=0,
        high=1,
        default_text="0.54; exact: 0",
    )
    similarity_margin: float | None = setting(
        None,
        "Jaccard index",
        (
            "How far a copy must stand out, 0 to 1. Of the originals that the search finds, the "
            "most similar one must exceed the fourth most similar by so much, unless its "
            "similarity is 0.8 or more. Pages of one template are about as similar to many "
            "originals as to the most similar one; a copy is more similar to its own. With 0, it "
            "need not stand out."
        ),
        low=0,
        high=1,
        default_text="0.12; without similarity_min: 0",
    )
    max_distance: int = setting(
        _SEARCH.max_distance,
        "bits",
        "Bits in which duplicates may differ. A fingerprint has 64.",
        low=0,
        high=16,
    )
    search_size: str = setting(
        size_text(_SEARCH),
        "choice",
        (
            "Directed search: the number of originals that it is made for, small (10 M), large "
            "(30 M) or huge (65 M). `neardup plan` names the size for a number of originals, and "
            "numbers for more of them: blocks, the bits of each, and the prefixes that are looked "
            "up in each block, like 10x26x64."
        ),
    )
    search_look_min: int = setting(
        _SEARCH.look_min,
        "thousandths",
        "Directed search: the second look that a candidate must reach.",
        low=0,
        high=1_000,
    )
    token_unit: Literal["word", "character"] = setting(
        _DEFAULT.token_unit,
        "choice",
        "What a token is. In scripts without spaces it is always a character.",
    )
    shingle_widths: Annotated[tuple[int, ...], NoDecode, BeforeValidator(_split)] = setting(
        _DEFAULT.shingle_widths,
        "tokens",
        "Tokens in a shingle of the fingerprint. One number or several, ascending, like 1,2.",
    )
    anchored_weight: int = setting(
        _DEFAULT.anchored_weight,
        "weight",
        (
            "Weight of a shingle with a function word. Prose is full of function words; "
            "advertisements and menus are not."
        ),
        low=1,
        high=255,
    )
    unanchored_weight: int = setting(
        _DEFAULT.unanchored_weight,
        "weight",
        "Weight of every other shingle. 0 leaves these shingles out.",
        low=0,
        high=255,
    )
    term_frequency: Literal["one", "log", "tf"] = setting(
        _DEFAULT.term_frequency,
        "choice",
        "How much n occurrences of a shingle count: 1, 1 + floor(log2 n), or n.",
    )
    anchors: Literal["elected", "named", "union"] = setting(
        _DEFAULT.anchors,
        "choice",
        (
            "Which function words anchor shingles: those of the language that the text itself "
            "elects, those of the language that its message names, or those of all languages."
        ),
    )
    stopwords_file: Path | None = setting(
        None,
        "file",
        (
            "Function words of your own, which replace the built-in lists: UTF-8, one word per "
            "line, # begins a comment."
        ),
    )
    tokens_min: int = setting(
        _DEFAULT.tokens_min,
        "tokens",
        "A document with fewer tokens matches only an equal one.",
        low=1,
        high=1_000,
    )
    shingles_min: int = setting(
        _DEFAULT.shingles_min,
        "shingles",
        (
            "With unanchored_weight 0: if a document has fewer anchored shingles than this, all "
            "its shingles count."
        ),
        low=1,
        high=1_000,
    )
    mask_numbers: bool = setting(
        _DEFAULT.mask_numbers,
        "yes/no",
        "Whether all dates, times and prices count as one and the same token.",
    )
    mask_identifiers: bool = setting(
        _DEFAULT.mask_identifiers,
        "yes/no",
        "Whether all session ids and hashes count as one and the same token.",
    )
    recrawls: Literal["compare", "replace"] = setting(
        "compare",
        "choice",
        (
            "How a new version of a URL counts. compare: like any other document, so a version "
            "that changed little is a duplicate. replace: the earlier version leaves the index "
            "first, as when a doc_id occurs again."
        ),
    )
    preferred_copies: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = setting(
        (),
        "hosts",
        (
            "Which copies are better than their originals, like example.org,example.net,earliest: "
            "hosts with their subdomains, the best one first. earliest, at the end: of two at one "
            "place in the list, the one that was fetched first. Verdicts say it as better_copy; "
            "which document is the original stays as it is."
        ),
        default_text="none",
    )
    expire_after_s: int = setting(
        0,
        "s",
        (
            "Forget originals unseen this long. Time goes by the log's time "
            "stamps. The next document that is similar to a forgotten one is new. 0 is no limit."
        ),
        low=0,
        high=10_000_000_000,
        default_text="no limit",
    )
    expire_from: Literal["first", "last"] = setting(
        "first",
        "choice",
        (
            "What counts as seen: only the original's own record (first), or also its duplicates "
            "and redeliveries (last)."
        ),
    )
    documents_max: int = setting(
        0,
        "documents",
        (
            "Keep at most this many originals. After each record of the log, those seen longest "
            "ago are forgotten. 0 is no limit."
        ),
        low=0,
        high=4_000_000_000,
        default_text="no limit",
    )

    @property
    def parameters(self) -> Parameters:
        """The fingerprint's parameters as the engine takes them."""
        values = {
            name: getattr(self, name)
            for name in Parameters.__dataclass_fields__
            if hasattr(self, name)
        }
        words = _own_words(self.stopwords_file) if self.stopwords_file else None
        return Parameters(**values, stopwords=words)

    @property
    def search(self) -> SearchRules:
        """How the original of a document is searched, as the index takes it."""
        blocks = blocks_of(self.search_size)
        return SearchRules(
            self.search_mode, self.max_distance, *blocks, self.search_look_min, PREFIX_MAX,
            similarity_min=-1 if self.similarity_min is None else self.similarity_min,
            similarity_margin=-1 if self.similarity_margin is None else self.similarity_margin,
        )  # fmt: skip

    @property
    def retention(self) -> Retention:
        """When originals leave, as the log takes it."""
        return Retention(self.expire_after_s * 1_000, self.expire_from, self.documents_max)

    @model_validator(mode="after")
    def _parameters_agree(self) -> Self:
        assert self.parameters and self.search  # their own checks raise ValueError
        Preferred.of(self.preferred_copies)
        return self
