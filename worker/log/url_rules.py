"""
The page that a URL names: which URLs are one page, if one differs from the other in nothing that
matters.

A crawler meets a page under many URLs: with a session id, with `utm_source`, with its parameters in
another order. By default neardup compares URLs byte for byte. With `url_rules` it compares the
pages that they name:

    https://Example.org:443/a/../news/?utm_source=x&b=2&a=1#top ──► https://example.org/news?a=1&b=2
    http://münchen.example/                                     ──► http://xn--mnchen-3ya.example

    standard    host in lower case and in Punycode, no default port, no dot segments, characters
                escaped as browsers do; no fragment, no slash at the end, parameters in order
    NAME, NA*   parameters of that name, or of names that begin so, do not count

A name is compared as the server reads it: größe, gr%C3%B6%C3%9Fe and gr%c3%b6%c3%9fe are one, and
so are ref+id and ref%20id, in an entry as in a URL. Capitals of ASCII count as small letters. Those
of other letters do not: which letters have capitals depends on Python's version, and a verdict must
not.

Where it counts: in telling re-crawls, in `recrawls = "replace"`, in the mark that keeps two pages
of one host apart, and in the question for a URL. A doc_id that is derived from a URL, and the URLs
that verdicts tell, stay as they are.

The parser is ada-url, which follows the standard that browsers follow (WHATWG). Another version may
know other characters, so its version is part of the definition. A URL that it cannot parse, or that
is neither http nor https, names itself.

Rejected, and why
- Other parsers. w3lib keeps default ports, url-normalize takes 15 times as long as ada, and courlan
  drops URLs that it takes for spam. can_ada is three times as fast as ada-url, but not its makers'.
- To keep the page with each row and original: with the rules off, which is nearly always, it would
  take 2 bytes per row for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, NamedTuple
from urllib.parse import quote_plus, unquote_to_bytes

from worker.errors import StopError, install_extra
from worker.log.texts import Texts

STANDARD = "standard"
ENTRIES_MAX = 1_000
_PACKAGE = "ada-url"
_SCHEMES = (b"http://", b"https://")
# These end a name, unless they are escaped, or a parser drops them (tabs, ends of lines).
_NOT_IN_NAMES = frozenset("&=#?*") | {chr(code) for code in (*range(0x21), 0x7F)}
# Of names in `entries`. An escaped star is a letter of the name; the other one is the rule's.
_PLAIN = "!$'(),/:;@[]^`{|}~"


class UrlRules(NamedTuple):
    """
    Which URLs name one page.

    Attributes:
        names: of the parameters that do not count, as `_name` reads them.
        beginnings: of such names.
        parser: the parser and its version; "": URLs are compared as they are.

    >>> NO_URL_RULES.page_of(b"https://Example.org/")
    b'https://Example.org/'
    """

    names: frozenset[bytes] = frozenset()
    beginnings: tuple[bytes, ...] = ()
    parser: str = ""

    @classmethod
    def of(cls, entries: Iterable[str]) -> UrlRules:
        """
        Return the rules of a list as the definition has it.

        Raises:
            TypeError: a text is given in place of a list.
            ValueError: the list does not begin with `standard`, an entry cannot be the name of a
                parameter, or there are too many.
            StopError: the parser is not installed.
        """
        if isinstance(entries, str):
            raise TypeError(f"url_rules must be a list, got the text {entries!r}")
        given = [str(entry) for entry in entries]
        if not given:
            return NO_URL_RULES
        if len(given) > ENTRIES_MAX:
            raise ValueError(f"url_rules may have {ENTRIES_MAX:,} entries, got {len(given):,}")
        if given[0] != STANDARD:
            raise ValueError(
                f"url_rules must begin with {STANDARD!r}, "
                f"which all the other rules need, got {given[0]!r}"
            )
        for entry in given[1:]:
            name = entry.removesuffix("*")
            if not name or set(name) & _NOT_IN_NAMES or not _is_text(name):
                raise ValueError(
                    f"url_rules: {entry!r} is no name of a parameter: write it like sid, or like "
                    f"utm_* for all that begin so, and escape what else it has (%3D for =)"
                )
        try:
            parser = f"{_PACKAGE} {metadata.version(_PACKAGE)}"
        except metadata.PackageNotFoundError:
            raise StopError(f"url_rules needs {_PACKAGE}: {install_extra('urls')}") from None
        return cls(
            frozenset(_name(entry) for entry in given[1:] if not entry.endswith("*")),
            tuple(sorted({_name(entry[:-1]) for entry in given[1:] if entry.endswith("*")})),
            parser,
        )

    @property
    def entries(self) -> list[str]:
        """The list as the definition has it, in one order; empty: URLs are compared as they are."""
        if not self.parser:
            return []
        names = [quote_plus(name, safe=_PLAIN) for name in self.names]
        beginnings = [quote_plus(name, safe=_PLAIN) + "*" for name in self.beginnings]
        return [STANDARD, *sorted(names + beginnings)]

    def page_of(self, url: bytes) -> bytes:
        """Return the URL of the page that a URL names. Cost: 20 µs; linear in its length."""
        if not self.parser:
            return url
        return self._page_of(url, _parser())

    def pages_of(self, urls: Texts) -> Texts:
        """Return the page of each URL. Cost: that of `page_of`; nothing without rules."""
        if not self.parser:
            return urls
        parse = _parser()
        return Texts.of([self._page_of(url, parse) for url in urls.tolist()])

    def _page_of(self, url: bytes, parse: Callable[[str], Any]) -> bytes:
        try:
            parsed: bytes = parse(url.decode()).encode()
        except ValueError:  # no URL, or no text at all
            return url
        if not parsed.startswith(_SCHEMES):
            return url
        place, _, query = parsed.partition(b"#")[0].partition(b"?")
        page = place.rstrip(b"/")
        parameters = [part for part in query.split(b"&") if part and not self._is_ignored(part)]
        return b"?".join([page, b"&".join(sorted(parameters))]) if parameters else page

    def _is_ignored(self, parameter: bytes) -> bool:
        name = _name(parameter.partition(b"=")[0])
        return name in self.names or name.startswith(self.beginnings)


def _name(written: str | bytes) -> bytes:
    """
    Return the name of a parameter as a server reads it, in small letters of ASCII.

    >>> _name("Ref+ID") == _name(b"ref%20%69d") == b"ref id"
    True
    """
    data = written.encode() if isinstance(written, str) else written
    return unquote_to_bytes(data.replace(b"+", b" ")).lower()


def _is_text(text: str) -> bool:
    """Return whether a text has no lone surrogates, which no URL can have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parser() -> Callable[[str], str]:
    # Here, since it is needed only where there are rules.
    from ada_url import normalize_url  # noqa: PLC0415

    return normalize_url  # type: ignore[no-any-return, unused-ignore]


NO_URL_RULES = UrlRules()
