"""
The definition: what decides verdicts, as one TOML file that a whole deployment shares.

    similarity_min = 0.6
    recrawls = "replace"
    expire_after_s = 2_592_000

A log has one definition, because documents that were judged by different rules cannot be compared.
So what decides verdicts is written in one place, the file that the setting `definition` names, and
nowhere else: no option, variable or file of settings takes any of it. A key that is left out has
its default. A process reads the file once, when it starts.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, PrivateAttr

from worker.core import stopwords
from worker.core.definition import Parameters
from worker.core.document import TEXT_CHARACTERS_LIMIT, TEXT_CHARACTERS_MAX
from worker.core.planner import blocks_of, size_text
from worker.core.search import SearchRules
from worker.log.rules import DOCUMENTS_MAX, EXPIRE_AFTER_MS_MAX, Retention
from worker.log.url_rules import UrlRules
from worker.settings.declaration import FORMER, kind_of, setting, unit_of

# A definition with every key and its comments has 6 KB. A larger file is another one.
_BYTES_MAX = 65_536


def _own_words(path: Path) -> frozenset[str]:
    """Return the words of a user's list."""
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


class CopyKeys(BaseModel):
    """What counts as a copy, and how long an original stays."""

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
            "How far a copy must stand out, 0 to 1. Of the originals that the "
            "search finds, the most similar one must exceed the fourth most similar "
            "by so much, unless its similarity is 0.8 or more. Pages of one "
            "template are about as similar to many originals as to the most similar "
            "one; a copy is more similar to its own. With 0, it need not stand out."
        ),
        low=0,
        high=1,
        default_text="0.12; without similarity_min: 0",
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
    url_rules: tuple[str, ...] = setting(
        (),
        "rules",
        (
            'Which URLs name one page, like ["standard", "utm_*", "sid"]: a re-crawl is recognised '
            "by its page. standard: as browsers write a URL, without its fragment and a slash at "
            "the end, and with its parameters in order; then the names of parameters that do not "
            "count. Verdicts have URLs as they arrived."
        ),
        default_text="none",
    )
    preferred_copies: tuple[str, ...] = setting(
        (),
        "hosts",
        (
            'Which copies are better than their originals, like ["example.org", "earliest"]: '
            "hosts with their subdomains, the best one first. earliest, at the end: of two at one "
            "place in the list, the one that was fetched first. better_copy in a verdict says "
            "whether its document is better; the original stays the same."
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
        high=EXPIRE_AFTER_MS_MAX // 1_000,
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
        high=DOCUMENTS_MAX,
        default_text="no limit",
    )
    text_characters_max: int = setting(
        TEXT_CHARACTERS_MAX,
        "characters",
        (
            "Characters of a text that are fingerprinted. A longer text is judged by its "
            "beginning. Needs up to 60 bytes per character and thread."
        ),
        low=1_000,
        high=TEXT_CHARACTERS_LIMIT,
    )


class FingerprintKeys(BaseModel):
    """How a text becomes a fingerprint."""

    token_unit: Literal["word", "character"] = setting(
        _DEFAULT.token_unit,
        "choice",
        "What a token is. In scripts without spaces it is always a character.",
    )
    shingle_widths: tuple[int, ...] = setting(
        _DEFAULT.shingle_widths,
        "tokens",
        "Tokens in a shingle of the fingerprint. One number or several, ascending, like [1, 2].",
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
        (
            "Weight of every other shingle. 0 leaves these shingles out, unless a document has "
            f"fewer than {_DEFAULT.shingles_min} shingles with a function word."
        ),
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
            "line, # begins a comment. A relative path begins at the definition's folder."
        ),
    )
    tokens_min: int = setting(
        _DEFAULT.tokens_min,
        "tokens",
        "A document with fewer tokens matches only an equal one.",
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


class SearchKeys(BaseModel):
    """How an original is searched for: `neardup plan` says which numbers an index needs."""

    search_mode: Literal["directed", "exact"] = setting(
        _SEARCH.mode,
        "choice",
        (
            "How an original is searched for. directed looks up the likeliest prefixes "
            "and takes a second look at each candidate. exact finds everything within "
            "max_distance, which should then be 3 to 7."
        ),
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
            "Directed search: the number of originals that it is made for, small (20 M), large "
            "(50 M) or huge (100 M). `neardup plan` names the size for a number of originals, and "
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


class DefinitionSettings(SearchKeys, FingerprintKeys, CopyKeys):
    """
    The keys of a definition, and what the engine makes of them.

    >>> DefinitionSettings(max_distance=9).search.max_distance
    9
    """

    _words: frozenset[str] | None = PrivateAttr(None)  # of `stopwords_file`

    @property
    def parameters(self) -> Parameters:
        """
        The fingerprint's parameters as the engine takes them.

        A list of function words is read when it is first asked for, and kept: a process goes on
        with the list that it began with. Settings made later read the file as it is then.
        """
        values = {
            name: getattr(self, name)
            for name in Parameters.__dataclass_fields__
            if hasattr(self, name)
        }
        if self.stopwords_file and self._words is None:
            self._words = _own_words(self.stopwords_file)
        return Parameters(**values, stopwords=self._words)

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
    def pages_of_urls(self) -> UrlRules:
        """Which URLs name one page, as the log takes it."""
        return UrlRules.of(self.url_rules)

    @property
    def retention(self) -> Retention:
        """When originals leave, as the log takes it."""
        return Retention(self.expire_after_s * 1_000, self.expire_from, self.documents_max)


def read_definition(path: Path) -> dict[str, Any]:
    """
    Return the keys and values of a file with a definition. The types and bounds are not checked.

    Raises:
        ValueError: the file cannot be read, is too large, is not TOML, holds nothing, or has a key
            that no definition has. The message names the file.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # a path with a null character
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"the definition {path} cannot be read: {reason}") from None
    if len(data) > _BYTES_MAX:
        raise ValueError(
            f"the definition {path} has more than {_BYTES_MAX:,} "
            "bytes, which no definition needs: is it another file?"
        )
    try:
        values = tomllib.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"the definition {path} is not TOML: {error}") from None
    if not values:
        raise ValueError(
            f"the definition {path} is empty. Write a key, such as similarity_min = 0.54, or name "
            "no definition, which gives all keys their defaults"
        )
    for name, value in values.items():
        _check_key(name, value, path)
    if "stopwords_file" in values:
        values["stopwords_file"] = path.parent.resolve() / str(values["stopwords_file"])
    return values


def _check_key(name: str, value: Any, path: Path) -> None:
    """Raise ValueError for a key that no definition has, and for a value of another kind."""
    field = DefinitionSettings.model_fields.get(name)
    if field is None:
        near = difflib.get_close_matches(name, DefinitionSettings.model_fields, 1)
        meant = f"did you mean {near[0]}?" if near else "`neardup settings --describe` lists all"
        meant = FORMER.get(name, meant)
        raise ValueError(f"the definition {path}: it has no key {name!r}: {meant}")
    is_switch = unit_of(field) == "yes/no"
    if isinstance(value, bool) != is_switch:  # pydantic would take true for 1, and "no" for false
        raise ValueError(f"the definition {path}: {name} = {value!r}: {kind_of(field)}")
