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

from worker.errors import StopError, install_extra
from worker.log.texts import Texts

STANDARD = "standard"
ENTRIES_MAX = 1_000
_PACKAGE = "ada-url"
_SCHEMES = (b"http://", b"https://")


class UrlRules(NamedTuple):
    """
    Which URLs name one page.

    Attributes:
        names: of the parameters that do not count, in lower case.
        beginnings: of such names.
        parser: the parser and its version; "": URLs are compared as they are.

    >>> NO_URL_RULES.page_of(b"https://Example.org/")
    b'https://Example.org/'
    """

    names: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()
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
                f"url_rules must begin with {STANDARD!r}, which all the other rules need, got "
                f"{given[0]!r}"
            )
        for name in given[1:]:
            if not name.strip("*") or "*" in name[:-1] or set(name) & set("&=#? "):
                raise ValueError(
                    f"url_rules: {name!r} is no name of a parameter: write it like sid, or like "
                    f"utm_* for all that begin so"
                )
        names = [name.lower() for name in given[1:]]
        try:
            parser = f"{_PACKAGE} {metadata.version(_PACKAGE)}"
        except metadata.PackageNotFoundError:
            raise StopError(f"url_rules needs {_PACKAGE}: {install_extra('urls')}") from None
        return cls(
            frozenset(name for name in names if not name.endswith("*")),
            tuple(sorted({name[:-1] for name in names if name.endswith("*")})),
            parser,
        )

    @property
    def entries(self) -> list[str]:
        """The list as the definition has it, in one order; empty: URLs are compared as they are."""
        if not self.parser:
            return []
        return [STANDARD, *sorted({*self.names, *(f"{name}*" for name in self.beginnings)})]

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
        name = parameter.partition(b"=")[0].decode().lower()
        return name in self.names or name.startswith(self.beginnings)


def _parser() -> Callable[[str], str]:
    # Here, since it is needed only where there are rules.
    from ada_url import normalize_url  # noqa: PLC0415

    return normalize_url  # type: ignore[no-any-return, unused-ignore]


NO_URL_RULES = UrlRules()
