"""
How fingerprints are made and compared: what all records of one log must agree on.

The log's first record of ours is its definition, as JSON for people and programs of any version:

    {"neardup": "definition", "format": 2, "raises": false, "hash": "…", "scheme": "…", "author": "…",
     "rules": {"max_distance": 12, …}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import orjson
import xxhash

from worker.core.search import SearchRules
from worker.errors import DefinitionError, RecordError
from worker.log.record import Author
from worker.log.retention import ENDLESS, Retention

__all__ = ["Declared", "Definition", "is_declaration"]

_PREFIX = b'{"neardup":"definition"'


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
    recrawls: Literal["compare", "replace"] = "compare"

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
        retention, search = self.retention, asdict(self.search)
        return {
            "scheme": self.scheme,
            "parameters": self.parameters,
            **self.settings,
            "pages": self.pages,
            "recrawls": self.recrawls,
            "max_distance": search.pop("max_distance"),
            **{f"search_{name}": value for name, value in search.items()},
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

    def check(self, found: Declared, where: str) -> None:
        """
        Make sure that a log or a snapshot has this definition.

        Raises:
            DefinitionError: it has another; names what differs, with both values.
        """
        own = Declared.of(self, found.record_format)
        if (found.scheme, found.hash) == (own.scheme, own.hash):
            return
        there, here = found.rules, orjson.loads(orjson.dumps(own.rules))  # tuples are lists there
        differences = {
            name: (there.get(name), here.get(name)) for name in {**there, **here} if there.get(name) != here.get(name)
        }
        hashes = {"scheme": (found.scheme, own.scheme), "hash": (found.hash, own.hash)}
        raise DefinitionError(where, differences if found.rules and differences else hashes)


class Declared(NamedTuple):
    """A definition as a log or a snapshot has it; without `rules` where only its hash is known."""

    record_format: int
    scheme: str
    hash: str
    author: str = ""
    rules: Mapping[str, Any] = {}  # never written to
    raises: bool = False

    @classmethod
    def of(cls, definition: Definition, record_format: int) -> Declared:
        """Return a definition as it is declared."""
        return cls(record_format, definition.scheme, f"{definition.hash:016x}", "", definition.rules)

    @classmethod
    def decode(cls, data: bytes) -> Declared:
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


def is_declaration(data: bytes) -> bool:
    """Return whether a record means to declare a definition."""
    return data.startswith(_PREFIX)
