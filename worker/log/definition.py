"""
How fingerprints are made and compared: what all records of one log must agree on.

The log's first record of ours is its definition, as JSON for people and programs of any version:

    {"neardup": "definition", "format": 3, "raises": false, "hash": "…", "scheme": "…", "author": "…",
     "rules": {"max_distance": 15, …}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

import orjson
import xxhash

from worker.core import stopwords
from worker.core.parameters import Parameters
from worker.core.search import SearchRules
from worker.errors import DefinitionError, RecordError, StopError
from worker.log.retention import ENDLESS, Retention
from worker.log.rows import Author

Recrawls = Literal["compare", "replace"]

_PREFIX = b'{"neardup":"definition"'
_BITS = 64
_PARAMETERS = tuple(
    field.name for field in fields(Parameters) if field.name not in ("bits", "fields", "stopwords")
)  # of the fingerprint, by the names of the settings


class Parts(NamedTuple):
    """What a definition is made of."""

    parameters: Parameters
    search: SearchRules
    retention: Retention
    recrawls: Recrawls
    text_characters_max: int


@dataclass(frozen=True, slots=True)
class Definition:
    """
    All that decides a fingerprint or a verdict.

    Args:
        scheme: the fingerprint scheme's id, at most 32 ASCII characters.
        parameters: the hash of the fingerprint's parameters, 16 hex digits.
        search: how the original of a document is searched.
        retention: when originals leave.
        recrawls: a new version of a URL is compared with the former one like any document, or takes its place.
        pages: the rules by which a page becomes text: their version and limits.
        settings: what `parameters` stands for, by the names of the settings; for people, so not in the hash.

    >>> Definition("nd1", "00" * 8).hash == Definition("nd1", "00" * 8, SearchRules("exact", 3)).hash
    False
    """

    scheme: str
    parameters: str
    search: SearchRules = SearchRules()  # noqa: RUF009  # frozen
    retention: Retention = ENDLESS
    pages: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    recrawls: Recrawls = "compare"

    @classmethod
    def of(cls, parts: Parts) -> Definition:
        """
        Return the definition that these make with the page rules of this version.

        Raises:
            ValueError: fingerprints of fields, or not of 64 bits: the log has those of texts, in 64 bits.
        """
        from worker.core.pages import PAGE_RULES  # noqa: PLC0415  # numba: settings must load without it

        parameters, search, retention, recrawls, text_characters_max = parts
        if parameters.bits != _BITS or parameters.fields:
            raise ValueError(
                f"documents are judged by fingerprints of their text in {_BITS} bits, got bits={parameters.bits}, "
                f"fields={parameters.fields}: leave both out"
            )
        own = parameters.stopwords
        settings = {name: getattr(parameters, name) for name in _PARAMETERS}
        return cls(
            parameters.scheme,
            parameters.hash,
            search,
            retention,
            f"{PAGE_RULES}, {text_characters_max} characters",
            settings | {"stopwords_file": own and stopwords.digest(own)},
            recrawls,
        )

    @property
    def hash(self) -> int:
        """64 bits over everything that changes a verdict; each record carries it."""
        parts = [self.scheme, self.parameters, self.pages, self.search.text]
        if not self.retention.is_endless:
            parts.append(str(self.retention))
        if self.recrawls != "compare":
            parts.append(self.recrawls)
        return xxhash.xxh64_intdigest("\n".join(parts).encode())

    @property
    def rules(self) -> dict[str, Any]:
        """All of it by the names of the settings, as the log's first record has it."""
        retention = self.retention
        return {
            "scheme": self.scheme,
            "parameters": self.parameters,
            **self.settings,
            "pages": self.pages,
            "recrawls": self.recrawls,
            **self.search.settings,
            "expire_after_s": retention.expire_after_ms / 1_000,
            "expire_from": "first" if retention.is_endless else retention.expire_from,
            "documents_max": retention.documents_max,
        }

    def author(self, name: str) -> Author:
        """Return the header of records that `name` writes."""
        return Author(name, self.scheme, self.hash)

    def declaration(self, author: str, record_format: int, *, raises: bool = False) -> bytes:
        """
        Return the record that makes this the definition of a log.

        Args:
            record_format: of the log's records; raises: also where the log has a lower one.
        """
        return orjson.dumps(
            {
                "neardup": "definition",
                "format": record_format,
                "raises": raises,
                "hash": f"{self.hash:016x}",
                "scheme": self.scheme,
                "author": author,
                "rules": self.rules,
            }
        )

    def check(self, found: LogDefinition, where: str) -> None:
        """
        Make sure that a log or a snapshot has this definition.

        Raises:
            DefinitionError: it has another; names what differs, with both values.
        """
        own = LogDefinition.of(self, found.record_format)
        if (found.scheme, found.hash) == (own.scheme, own.hash):
            return
        differences = _differences(found.rules, orjson.loads(orjson.dumps(own.rules)))  # tuples are lists there
        hashes = {"scheme": (found.scheme, own.scheme), "hash": (found.hash, own.hash)}
        raise DefinitionError(where, differences if found.rules and differences else hashes)


class LogDefinition(NamedTuple):
    """A definition as a log or a snapshot has it; without `rules` where only its hash is known."""

    record_format: int
    scheme: str
    hash: str
    author: str = ""
    rules: Mapping[str, Any] = {}  # never written to
    raises: bool = False

    @classmethod
    def of(cls, definition: Definition, record_format: int) -> LogDefinition:
        """Return a definition as it is declared."""
        return cls(record_format, definition.scheme, f"{definition.hash:016x}", "", definition.rules)

    def parts(self, words: frozenset[str] | None = None) -> Parts:
        """
        Return what this was made of, for `Definition.of`.

        Args:
            words: the list of function words, where it is one of the user's own: only its digest is declared.

        Raises:
            StopError: it has a list of its own, and none is given; or its rules are not known to this version.
        """
        rules = self.rules
        if rules.get("stopwords_file") and words is None:
            raise StopError("the definition has function words of its own: give the same list, as `stopwords`")
        try:
            return Parts(
                Parameters(**{name: rules[name] for name in _PARAMETERS}, stopwords=words),
                SearchRules.of_settings(rules),
                Retention(round(rules["expire_after_s"] * 1_000), rules["expire_from"], rules["documents_max"]),
                rules["recrawls"],
                int(rules["pages"].split()[-2]),  # "…, 1048576 characters"
            )
        except (LookupError, TypeError, ValueError) as error:
            raise StopError(f"the definition is of another version of neardup: {error!r}") from error

    @classmethod
    def decode(cls, data: bytes) -> LogDefinition:
        """
        Read a record that declares a definition. The rules of this stay as they are in every later version.

        Raises:
            RecordError: it is none.
        """
        try:
            fields = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise RecordError(f"a declaration of a definition that is no JSON: {error}") from error
        number, scheme, digest = (fields.get(name) for name in ("format", "scheme", "hash"))
        rules, author, raises = (fields.get(name) for name in ("rules", "author", "raises"))
        if not (type(number) is int and number >= 1 and all(type(text) is str for text in (scheme, digest, author))):
            raise RecordError("a declaration of a definition needs format, scheme, hash and author")
        if type(rules) is not dict or type(raises) is not bool:
            raise RecordError("a declaration of a definition needs its rules, and whether it raises the format")
        return cls(number, scheme, digest, author, rules, raises)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return what was chosen differently, by the names of the settings: nothing that follows from it."""
    both = [_with_characters(rules) for rules in (there, here)]
    names = dict.fromkeys(name for rules in both for name in rules)
    pairs = {name: (both[0].get(name), both[1].get(name)) for name in names}
    found = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if found.keys() & {*_PARAMETERS, "stopwords_file"}:
        found.pop("parameters", None)
    usual = [_of_mode(rules.get("search_mode")) for rules in both]
    follows = {name: (usual[0][name], usual[1].get(name)) for name in usual[0] if name != "search_mode"}
    return {name: pair for name, pair in found.items() if follows.get(name) != pair}


def _with_characters(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return rules with the setting that `pages` ends in by its name."""
    pages, comma, characters = str(rules.get("pages", "")).rpartition(", ")
    return {**rules, "pages": pages, "text_characters_max": characters.partition(" ")[0]} if comma else dict(rules)


def _of_mode(mode: Any) -> dict[str, Any]:
    """Return the search rules of a mode where nothing else is chosen; of one that this version has not, none."""
    return SearchRules(mode).settings if mode in ("directed", "exact") else {}


def is_declaration(data: bytes) -> bool:
    """Return whether a record means to declare a definition."""
    return data.startswith(_PREFIX)
