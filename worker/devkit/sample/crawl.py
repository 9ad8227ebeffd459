"""
The plan of a crawl: what is captured one after the other, and the truth about it.

    relation     share  what                                                              expected
    original      .47   an article for the first time                                     verdict
    syndicated    .11   its text on another site, with that site's menus and adverts      verdict
    recrawl       .09   the same URL later: other adverts and teasers                     verdict
    edited        .07   the same URL later, with a small edit                             verdict
    mirror        .05   the same bytes on another host                                    verdict
    product, …    .02   each of six kinds: a page of a template with other facts, which   new
                        is another page to a person, so each is a group of its own
    short         .06   a page of a few words; equal texts are one group                  verdict
    damaged       .03   in turn: a compressed record with flipped bits, a record without  unreadable,
                        a header, an empty body, a page cut off, a page with invalid      unreadable, skipped,
                        bytes and NUL                                                     verdict, verdict

Copies follow their article within the last 2,000 articles. A template has a site, and 350 pages; then the next template
of the kind begins, in another language. Memory does not grow with the number of documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import xxhash

from worker.devkit.sample.article import Article, edited, write_article
from worker.devkit.sample.dice import Dice
from worker.devkit.sample.language import LANGUAGES, TEMPLATES, load_language
from worker.devkit.sample.site import Site, found_site, render
from worker.devkit.sample.template import PAGES_MAX, fill_template

FIRST_FETCH_S = 1_709_251_200  # 2024-03-01T00:00:00Z
RELATIONS = {
    **{"original": 47, "syndicated": 11, "recrawl": 9, "edited": 7, "mirror": 5, "short": 6, "damaged": 3},
    **dict.fromkeys(TEMPLATES, 2),
}
RECENT_MAX = 2_000
_DOCUMENTS_PER_SITE = 150
_SITES = (4 * len(LANGUAGES), 600)
_DRAWN = tuple(relation for relation, share in RELATIONS.items() for _ in range(share))
_HARMS = ("flipped-bits", "no-header", "empty", "cut", "invalid-bytes")
_EXPECTED = {"flipped-bits": "unreadable", "no-header": "unreadable", "empty": "skipped"}


class Capture(NamedTuple):
    """One record of the crawl and its truth. `harm`: how the record itself is damaged when it is written, or None."""

    url: str
    fetched_at_s: int
    header: str
    body: bytes
    group: str | None
    relation: str
    language: str
    expected: str
    harm: str | None = None


class _Known(NamedTuple):
    """An article that was captured lately, and where."""

    article: Article
    site: Site
    url: str
    header: str
    body: bytes


def crawl(documents: int, seed: int) -> Iterator[Capture]:
    """
    Return the captures of a synthetic crawl, in the order of their fetch times.

    Args:
        documents: how many, at least 1.
        seed: equal seeds give equal captures, on every machine.

    Cost: about 0.4 ms a document; memory some 100 MB for 20,000 documents.
    """
    dice = Dice(seed)
    fewest, most = _SITES
    count = min(most, max(fewest, documents // _DOCUMENTS_PER_SITE))
    languages = len(LANGUAGES)
    sites = [
        found_site(f"site{number}", LANGUAGES[number % languages], number // languages, dice) for number in range(count)
    ]
    by_language = {code: [site for site in sites if site.language == code] for code in LANGUAGES}
    recent: list[_Known] = []
    templated: dict[str, tuple[int, Site]] = {}
    fetched_at_s = FIRST_FETCH_S
    articles = harmed = 0
    for _ in range(documents):
        fetched_at_s += dice.number(1, 3)
        relation = dice.pick(_DRAWN) if recent else "original"
        if relation == "short":
            yield _short(dice.pick(sites), fetched_at_s, dice)
            continue
        if relation == "damaged":
            yield _damaged(dice.pick(sites), fetched_at_s, _HARMS[harmed % len(_HARMS)], harmed, dice)
            harmed += 1
            continue
        if relation in TEMPLATES:
            number, site = templated[relation] = _next_page(relation, templated.get(relation), dice)
            article = fill_template(relation, f"{relation}{number}", site.language, dice)
            known = _captured(article, site, f"http://{site.host}/{number}.html", dice)
        elif relation == "original":
            site = dice.pick(sites)
            article = write_article(f"a{articles}", load_language(site.language), dice)
            known = _captured(article, site, f"http://{site.host}/{articles}.html", dice)
            articles += 1
            if len(recent) < RECENT_MAX:
                recent.append(known)
            else:
                recent[articles % RECENT_MAX] = known
        else:
            known = _copy(dice.pick(recent), relation, by_language, dice)
        language, group = known.site.language, known.article.group
        expected = "new" if relation in TEMPLATES else "verdict"
        yield Capture(known.url, fetched_at_s, known.header, known.body, group, relation, language, expected)


def _copy(of: _Known, relation: str, by_language: dict[str, list[Site]], dice: Dice) -> _Known:
    if relation == "mirror":
        host = f"mirror{dice.number(1, 9)}.{of.site.host.removeprefix('www.')}"
        return of._replace(url=of.url.replace(of.site.host, host))
    if relation == "recrawl":
        return _captured(of.article, of.site, of.url, dice)
    if relation == "edited":
        return _captured(edited(of.article, dice), of.site, of.url, dice)
    others = [site for site in by_language[of.site.language] if site is not of.site]
    site = dice.pick(others)
    return _captured(of.article, site, f"http://{site.host}/news/{of.article.group}-{dice.number(1, 999)}.html", dice)


def _next_page(kind: str, last: tuple[int, Site] | None, dice: Dice) -> tuple[int, Site]:
    """Return the number of a kind's next page, and its site."""
    number = last[0] + 1 if last else 0
    if last and number % PAGES_MAX:
        return number, last[1]
    template = number // PAGES_MAX
    language = LANGUAGES[(TEMPLATES.index(kind) + 3 * template) % len(LANGUAGES)]  # 3: all of them, in turn
    return number, found_site(f"{kind}{template}", language, template, dice)


def _captured(article: Article, site: Site, url: str, dice: Dice) -> _Known:
    body = render(site, article, dice).encode(site.charset, "xmlcharrefreplace")
    return _Known(article, site, url, _header(site), body)


def _header(site: Site) -> str:
    charset = f"; charset={site.charset}" if site.charset_in_header else ""
    chunked = "\r\nTransfer-Encoding: chunked" if site.is_chunked else ""
    return f"HTTP/1.1 200 OK\r\nServer: sample\r\nContent-Type: text/html{charset}{chunked}"


def _short(site: Site, fetched_at_s: int, dice: Dice) -> Capture:
    """A page of a few words; many of them name somebody and so are nearly unique."""
    text = dice.pick(site.lexicon.language.shorts)
    if dice.chance(0.5) and site.lexicon.language.joiner:  # elsewhere the phrase would be most of the characters
        text += f" {site.lexicon.name()} {site.lexicon.name()}"
    page = f"<html><head><meta charset=utf-8></head><body><p>{text}</p></body></html>"
    group = f"s{xxhash.xxh64_hexdigest(text.encode())}"
    url = f"http://{site.host}/short/{dice.number(1, 10**9)}"
    header = "HTTP/1.1 200 OK\r\nContent-Type: text/html"
    return Capture(url, fetched_at_s, header, page.encode(), group, "short", site.language, "verdict")


def _damaged(site: Site, fetched_at_s: int, harm: str, number: int, dice: Dice) -> Capture:
    """A capture that went wrong; what is left of it is an article of its own."""
    article = write_article(f"d{number}", load_language(site.language), dice)
    known = _captured(article, site, f"http://{site.host}/damaged/{number}.html", dice)
    body, header = known.body, known.header.replace("\r\nTransfer-Encoding: chunked", "")
    expected = _EXPECTED.get(harm, "verdict")
    if harm == "empty":
        body = b""
    elif harm == "cut":
        body = body[: len(body) * 2 // 3]
    elif harm == "invalid-bytes":
        middle = len(body) // 2
        body = body[:middle] + b"\xff\x00\xfe" + body[middle:]
    group = article.group if expected == "verdict" else None
    broken = harm if expected == "unreadable" else None
    return Capture(known.url, fetched_at_s, header, body, group, "damaged", site.language, expected, broken)
