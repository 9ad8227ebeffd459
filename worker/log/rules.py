"""
The rules of a log: what decides a fingerprint or a verdict, how long originals stay, and which
records count.

All workers of a group must judge by the same rules, or their verdicts would contradict each other.
So the first record that a worker writes into an empty log declares its definition. It is JSON, so
that people and programs of any version can read it:

    {"neardup": "definition", "format": 3, "raises": false, "hash": "…", "scheme": "…",
     "author": "…", "rules": {"max_distance": 16, …}}

The hash covers everything that can change a verdict. A log may also begin with the originals of a
snapshot, its base; then the hash covers the snapshot's checksum. A worker without that snapshot, or
of a version that knows no bases, therefore has another definition.

The first definition in the log is the valid one. What every replica does with a record depends on
it, and on the format f that it declares:

    record                      before a definition       after it
    a definition                becomes the valid one     the same one with a format above f and
                                                          "raises": f becomes that format;
                                                          otherwise ignored
    rows                        ignored                   applied if they are of this definition and
                                                          of a format up to f; otherwise ignored
    rows of a format that is    this version stops        ignored
      no longer read
    damage, null, others        ignored                   ignored

These rules look at the log alone, never at the version that reads it, so all replicas ignore the
same records. A worker that could read a newer format ignores it, too, until a declaration allows
it. A worker whose own definition is not the log's stops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple, get_args

import orjson
import xxhash

from worker.core import stopwords
from worker.core.arguments import whole_number
from worker.core.definition import Parameters
from worker.core.planner import size_text
from worker.core.search import SearchRules
from worker.errors import DefinitionError, RecordError, StopError
from worker.log.preferred import NOT_PREFERRED, Preferred
from worker.log.record import FORMAT_OLDEST, FORMAT_VERSION, Author, LogRecord, decode
from worker.log.url_rules import NO_URL_RULES, UrlRules

Recrawls = Literal["compare", "replace"]

_PREFIX = b'{"neardup":"definition"'
_BITS = 64
_BASE = "base_snapshot"  # the setting, and its name among the rules
# The same; all three are among the rules only where they are set.
_PREFERRED = "preferred_copies"
_URLS = "url_rules"
_PARSER = "url_parser"  # goes with them: a package and its version
_BLOCKS = ("search_blocks", "search_block_bits", "search_patterns")
_PACKAGE_VERSION = re.compile(r"([a-z][a-z-]*) ([0-9][0-9a-z.]*)")
# Of the fingerprint, by the names of the settings.
_PARAMETERS = tuple(
    field.name for field in fields(Parameters) if field.name not in ("bits", "fields", "stopwords")
)


# The bounds of the settings. Larger numbers would not come back from JSON as they were.
EXPIRE_AFTER_MS_MAX = 10_000_000_000 * 1_000
DOCUMENTS_MAX = 4_000_000_000


@dataclass(frozen=True, slots=True)
class Retention:
    """
    When originals leave.

    Originals leave between records and by the log's own clock, so all replicas drop the same ones
    at the same place. The clock is the largest time stamp of a record so far: it never goes back.

    1. Before a record, originals that were not seen for longer than `expire_after_ms` leave.
    2. The record's rows are judged against those that stay.
    3. After it, with `expire_from` "last", originals that were seen again move to the end of the
       queue.
    4. If there are more than `documents_max`, the first of the queue leave.

    The queue is the order of rows: each original enters at its end.

    Args:
        expire_after_ms: how long an original stays after it was seen; 0 means without limit.
        expire_from: what counts as seen: its own record ("first"), or also its duplicates and
            redeliveries ("last"). Moving an original costs as much as adding one, so "last" moves
            it only when a sixteenth of the window has passed since it was seen, or, with
            `documents_max`, when a sixteenth of that many originals stand behind it.
        documents_max: how many originals may stay after each record; 0 means any number. The one
            that was seen longest ago leaves first.

    Raises:
        ValueError: a number is negative or too large, or `expire_from` neither "first" nor "last".
        TypeError: a number is not whole.

    >>> Retention(expire_after_ms=60_000).is_endless, Retention().is_endless
    (False, True)
    >>> str(Retention(86_400_000, "last", 1_000))
    'expire_after_s 86400, expire_from last, documents_max 1000'
    """

    expire_after_ms: int = 0
    expire_from: Literal["first", "last"] = "first"
    documents_max: int = 0

    def __post_init__(self) -> None:
        for name, most in (
            ("expire_after_ms", EXPIRE_AFTER_MS_MAX),
            ("documents_max", DOCUMENTS_MAX),
        ):
            number = whole_number(name, getattr(self, name))
            if not 0 <= number <= most:
                raise ValueError(f"{name} must be 0 (no limit) to {most:,}, got {number:,}")
            object.__setattr__(self, name, number)
        if self.expire_from not in ("first", "last"):
            raise ValueError(f"expire_from must be 'first' or 'last', got {self.expire_from!r}")

    def __str__(self) -> str:
        if self.is_endless:
            return "originals kept for ever"
        seconds = f"{self.expire_after_ms / 1_000:.3f}".rstrip("0").rstrip(".")
        return (
            f"expire_after_s {seconds}, "
            f"expire_from {self.expire_from}, documents_max {self.documents_max}"
        )

    @property
    def expires(self) -> bool:
        """Whether originals leave by the log's time, which must then be the brokers'."""
        return self.expire_after_ms > 0

    @property
    def is_endless(self) -> bool:
        """Whether originals never leave by themselves; then `expire_from` has no effect."""
        return not self.expire_after_ms and not self.documents_max


ENDLESS = Retention()


class Base(NamedTuple):
    """The snapshot whose originals a log begins with."""

    digest: str  # its checksum, in hex
    documents: int  # originals in it


@dataclass(frozen=True, slots=True)
class Definition:
    """
    All settings that decide a fingerprint or a verdict.

    Args:
        scheme: the fingerprint scheme's id, at most 32 ASCII characters.
        parameters: the hash of the fingerprint's parameters, 16 hex digits.
        search: how the original of a document is searched.
        retention: when originals leave.
        recrawls: whether a new version of a URL is compared with the earlier version like any other
            document, or replaces it.
        pages: the rules by which a page becomes text: their version and limits.
        settings: the values behind `parameters`, by the names of the settings. They are for people,
            so the hash does not cover them.
        base: the snapshot that the log begins with; None if it begins empty.
        preferred: which copies verdicts call better than their originals.
        url_rules: which URLs name one page.
    """

    scheme: str
    parameters: str
    search: SearchRules = SearchRules()  # noqa: RUF009  # frozen
    retention: Retention = ENDLESS
    pages: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False)
    recrawls: Recrawls = "compare"
    base: Base | None = None
    preferred: Preferred = NOT_PREFERRED
    url_rules: UrlRules = NO_URL_RULES

    @classmethod
    def of(
        cls,
        parameters: Parameters,
        search: SearchRules,
        retention: Retention,
        recrawls: Recrawls,
        text_characters_max: int,
        preferred_copies: Iterable[str] = (),
        url_rules: Iterable[str] = (),
    ) -> Definition:
        """
        Return the definition of these rules, with this version's page rules.

        Raises:
            ValueError: the fingerprints are of fields, or not of 64 bits; there is no such rule of
                re-crawls; or a list of preferred copies or of rules for URLs is none
                (`Preferred.of`, `UrlRules.of`).
            StopError: rules for URLs need a package that is not installed.
        """
        # Page rules load numba, and reading settings must not.
        from worker.core.pages import PAGE_RULES  # noqa: PLC0415

        if parameters.bits != _BITS or parameters.fields:
            raise ValueError(
                f"documents are judged by fingerprints of their text in {_BITS} bits, got "
                f"bits={parameters.bits}, fields={parameters.fields}: leave both out"
            )
        if recrawls not in get_args(Recrawls):
            raise ValueError(
                f"recrawls must be one of {', '.join(get_args(Recrawls))}, got {recrawls!r}"
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
            preferred=Preferred.of(preferred_copies),
            url_rules=UrlRules.of(url_rules),
        )

    @property
    def hash(self) -> int:
        """64 bits over everything that can change a verdict. Each record carries it."""
        parts = [self.scheme, self.parameters, self.pages, self.search.text]
        if not self.retention.is_endless:
            parts.append(str(self.retention))
        if self.recrawls != "compare":
            parts.append(self.recrawls)
        if self.preferred.entries:
            parts.append(f"preferred {', '.join(self.preferred.entries)}")
        if self.url_rules.entries:
            parts.append(f"{self.url_rules.parser}: {', '.join(self.url_rules.entries)}")
        if self.base:
            parts.append(f"base {self.base.digest}, {self.base.documents} documents")
        return xxhash.xxh64_intdigest("\n".join(parts).encode())

    @property
    def rules(self) -> dict[str, Any]:
        """The whole definition by the names of the settings, as the log's first record has it."""
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
            **({_PREFERRED: self.preferred.entries} if self.preferred.entries else {}),
            **self._rules_of_urls,
            **({_BASE: self.base._asdict()} if self.base else {}),
        }

    @property
    def _rules_of_urls(self) -> dict[str, Any]:
        if not self.url_rules.entries:
            return {}
        return {_URLS: self.url_rules.entries, _PARSER: self.url_rules.parser}

    def author(self, name: str) -> Author:
        """Return the header of records that `name` writes."""
        return Author(name, self.scheme, self.hash)

    def declaration(self, author: str, record_format: int) -> bytes:
        """
        Return the record that declares this definition.

        Args:
            author: the worker that writes it.
            record_format: the highest format of the records that may follow.
        """
        declared = LogDefinition.of(self, record_format)
        return orjson.dumps(
            {
                "neardup": "definition",
                "format": record_format,
                "raises": False,  # only a version with another format has a reason to
                "hash": declared.hash,
                "scheme": self.scheme,
                "author": author,
                "rules": declared.rules,
            }
        )

    def with_base_of(self, found: LogDefinition) -> Definition:
        """Return this definition with the base of a log or a snapshot, unless it has one."""
        return replace(self, base=self.base or found.base)

    def check(self, found: LogDefinition, where: str) -> None:
        """
        Compare this definition with the one that a log or a snapshot has.

        Args:
            found: the definition of the log or snapshot.
            where: what has it, for the message.

        Raises:
            DefinitionError: they differ. It has each rule that differs, with both values.
        """
        own = LogDefinition.of(self, found.record_format)
        if (found.scheme, found.hash) != (own.scheme, own.hash):
            rules = orjson.loads(orjson.dumps(own.rules))  # tuples are lists there
            hashes = {"scheme": (found.scheme, own.scheme), "hash": (found.hash, own.hash)}
            differences = (found.rules and _differences(found.rules, rules)) or hashes
            raise DefinitionError(where, differences, _remedy(differences))


def is_declaration(data: bytes) -> bool:
    """Return whether a record declares a definition; it may still be one that cannot be read."""
    return data.startswith(_PREFIX)


class LogDefinition(NamedTuple):
    """A definition as a log or a snapshot has it."""

    record_format: int
    scheme: str
    hash: str
    author: str
    rules: Mapping[str, Any]
    raises: bool = False

    @classmethod
    def of(cls, definition: Definition, record_format: int) -> LogDefinition:
        """Return a definition as it would be declared, without an author."""
        return cls(
            record_format, definition.scheme, f"{definition.hash:016x}", "", definition.rules
        )

    @property
    def base(self) -> Base | None:
        """The base with which the log begins."""
        named = self.rules.get(_BASE)
        return Base(**named) if named else None

    def arguments(self, words: frozenset[str] | None = None) -> dict[str, Any]:
        """
        Return the arguments of `Definition.of` that made this.

        Args:
            words: the user's own list of function words, if the definition has one. The
                declaration has only its digest.

        Raises:
            StopError: the definition has a list of its own and none is given, or it has rules that
                this version does not know.
        """
        rules = self.rules
        if rules.get("stopwords_file") and words is None:
            raise StopError(
                "the definition has function words of its own: give the same list, as `stopwords`"
            )
        try:
            arguments = {
                "parameters": Parameters(
                    **{name: rules[name] for name in _PARAMETERS}, stopwords=words
                ),
                "search": SearchRules.of_settings(rules),
                "retention": Retention(
                    round(rules["expire_after_s"] * 1_000),
                    rules["expire_from"],
                    rules["documents_max"],
                ),
                "recrawls": rules["recrawls"],
                "text_characters_max": int(rules["pages"].split()[-2]),  # "…, 1048576 characters"
                _PREFERRED: tuple(rules.get(_PREFERRED, ())),
                _URLS: tuple(rules.get(_URLS, ())),
            }
            Definition.of(**arguments)  # which may refuse them, too
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise StopError(
                f"the definition is of another version of neardup: {error!r}"
            ) from error
        return arguments

    @classmethod
    def decode(cls, data: bytes) -> LogDefinition:
        """
        Return the definition that a record declares.

        Every later version must read what this one accepts: it is how versions tell each other
        apart.

        Raises:
            RecordError: the record is not JSON, or a field is missing or of another type.
        """
        try:
            fields = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise RecordError(f"a declaration of a definition that is no JSON: {error}") from error
        number, scheme, digest = (fields.get(name) for name in ("format", "scheme", "hash"))
        rules, author, raises = (fields.get(name) for name in ("rules", "author", "raises"))
        if not (
            type(number) is int
            and number >= 1
            and all(type(text) is str for text in (scheme, digest, author))
        ):
            raise RecordError("a declaration of a definition needs format, scheme, hash and author")
        if type(rules) is not dict or type(raises) is not bool:
            raise RecordError(
                "a declaration of a definition needs its rules, and whether it raises the format"
            )
        return cls(number, scheme, digest, author, rules, raises)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """
    Return the settings that differ, with both values.

    Another search mode has other defaults. Settings that differ for that reason alone are left out:
    the mode says it.
    """
    both = [_with_size(_with_characters(rules)) for rules in (there, here)]
    names = dict.fromkeys(name for rules in both for name in rules)
    pairs = {name: (both[0].get(name), both[1].get(name)) for name in names}
    found = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if found.keys() & {*_PARAMETERS, "stopwords_file"}:
        found.pop("parameters", None)
    # This version may not know the mode of the other side, and then knows none of its defaults.
    modes = [rules.get("search_mode") for rules in both]
    usual = [
        _with_size(SearchRules(mode).settings) if mode in ("directed", "exact") else {}
        for mode in modes
    ]
    follows = {
        name: (usual[0][name], usual[1].get(name)) for name in usual[0] if name != "search_mode"
    }
    return {name: pair for name, pair in found.items() if follows.get(name) != pair}


def _remedy(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """Say what to do where nothing differs that is a setting of the search or of its parameters."""
    if not differences.keys() <= {_BASE, _PARSER}:
        return ""
    remedies = {_BASE: _remedy_of_base, _PARSER: _remedy_of_parser}
    return ". ".join(remedies[name](str(there or "")) for name, (there, _) in differences.items())


def _remedy_of_base(there: str) -> str:
    return (
        f"Name the snapshot with this digest as {_BASE}, a copy of the one that the first workers "
        f"had; a worker that has a snapshot of its own in state_dir needs none"
        if there
        else f"The log began without it: leave {_BASE} out, "
        "or give the group a new log, which begins with it"
    )


def _remedy_of_parser(there: str) -> str:
    """Say how to get the parser that the log has. The command has nothing else from the log."""
    found = _PACKAGE_VERSION.fullmatch(there)
    install = f": pip install '{found[1]}=={found[2]}'" if found else ""
    return (
        f"Install the package with which it was judged, in every place that judges by it{install}. "
        "To go over to another version of the package, judge the documents anew "
        "(a group: neardup rebuild)"
    )


def _with_size(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return rules with the blocks of the search by the setting that decides them."""
    others = {name: value for name, value in rules.items() if name not in _BLOCKS}
    try:
        return others | {"search_size": size_text(SearchRules.of_settings(rules))}
    except (LookupError, TypeError, ValueError):  # of a version with other rules
        return dict(rules)


def _with_characters(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return rules with the setting that `pages` ends in by its name."""
    pages, comma, characters = str(rules.get("pages", "")).rpartition(", ")
    return (
        {**rules, "pages": pages, "text_characters_max": characters.partition(" ")[0]}
        if comma
        else dict(rules)
    )


class Ignored(StrEnum):
    """The reason for which a record of the log changes nothing."""

    FOREIGN = "foreign"  # not ours, null or damaged
    DEFINITION = "definition"  # its definition differs from the log's
    FORMAT = "format"  # its format differs from the log's


class Acceptance:
    """
    Decides for each record of one log, in order, whether it counts.

    Args:
        definition: the definition of this process.
        declared: the log's definition if a snapshot already knows it, else None.

    Raises:
        DefinitionError: the snapshot is of a log whose format is no longer read.
    """

    def __init__(self, definition: Definition, declared: LogDefinition | None = None) -> None:
        if declared:
            _check_format(declared.record_format, "the snapshot")
        self.definition = definition
        self.declared = declared
        self._hash = definition.hash

    @property
    def record_format(self) -> int:
        """
        The highest format of records that the log accepts; 0 if the log has no definition yet.
        """
        return self.declared.record_format if self.declared else 0

    def accept(self, value: bytes, log_offset: int) -> LogRecord | Ignored | None:
        """
        Decide on the next record.

        Returns:
            The record to apply; or why it is ignored; or None for a declaration of this process's
            own definition, after which nothing is left to do.

        Raises:
            DefinitionError: the log's definition is not this process's, or its format is no longer
                read.
            StopError: from here on the log has records of a format that this version cannot read.

        Cost: that of `decode`.
        """
        try:
            if is_declaration(value):
                return self._declare(LogDefinition.decode(value), log_offset)
            record = decode(value)
        except RecordError as error:
            if not self.declared and error.record_format:
                _check_format(error.record_format, f"the log (record {log_offset})")
            return Ignored.FORMAT if error.record_format else Ignored.FOREIGN
        author = record.author
        if not self.record_format or (author.scheme, author.parameters_hash) != (
            self.definition.scheme,
            self._hash,
        ):
            return Ignored.DEFINITION
        return record if record.format <= self.record_format else Ignored.FORMAT

    def _declare(self, declared: LogDefinition, log_offset: int) -> Ignored | None:
        where = f"the log (record {log_offset}, written by {declared.author!r})"
        if not self.declared:
            self.definition.check(declared, where)
            _check_format(declared.record_format, where)
        elif (declared.scheme, declared.hash) != (self.definition.scheme, f"{self._hash:016x}"):
            return Ignored.DEFINITION
        elif not declared.raises:
            return None
        if declared.record_format > FORMAT_VERSION:
            raise StopError(
                f"{where} continues in records of format {declared.record_format}, but this "
                f"version reads formats up to {FORMAT_VERSION}: start the newer version that "
                "the other workers run"
            )
        if not self.declared:
            self.declared = declared
        elif declared.record_format > self.record_format:
            self.declared = self.declared._replace(record_format=declared.record_format)
        return None


def _check_format(record_format: int, where: str) -> None:
    """Refuse a log whose format is no longer read: ignoring its records would lose documents."""
    if record_format < FORMAT_OLDEST:
        raise DefinitionError(where, {"record_format": (record_format, FORMAT_VERSION)})
