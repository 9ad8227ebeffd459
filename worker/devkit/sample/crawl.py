"""
A synthetic crawl: language -> article -> site -> captures, one after the other, and the truth about
them. On disk:

    OUT.warc.gz      warcinfo, then one response record per document: gzip, one member each
    OUT.truth.jsonl  a line per document, in their order: doc_id, url, fetched_at, group, relation,
                     language, expected

`group` is the article: documents of one group are copies of each other, of different groups they
are not. `expected` is "verdict", for pages of templates "new", "skipped" (nothing in it) or
"unreadable" (the record itself is damaged: no document comes out of it).

    relation    share  what                                                              expected
    original     .44   an article for the first time                                     verdict
    syndicated   .11   its text on another site, with that site's menus and adverts      verdict
    recrawl      .09   the same URL later: other adverts and teasers                     verdict
    edited       .07   the same URL later, with a small edit                             verdict
    mirror       .05   the same bytes on another host                                    verdict
    product, …   .02   each of six kinds: a page of a template with other facts, which   new
                       is another page to a person, so each is a group of its own
    rotating     .03   an article in plain text, or one of these again, each time with   verdict
                       other advertisements: a fifth of its characters
    short        .06   a page of a few words; equal texts are one group                  verdict
    damaged      .03   in turn: a compressed record with flipped bits, a record without  unreadable,
                       a header, an empty body,                                          skipped,
                       a page cut off, a page with invalid bytes and NUL                 verdict

Copies follow their article within the last 2,000 articles. A template has a site, and 350 pages;
then the next template of the kind begins, in another language. Memory does not grow with the number
of documents.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

import orjson
import xxhash

from schemas.fields import format_timestamp
from worker.core.document import derive_doc_id
from worker.errors import StopError
from worker.shell.files.outputs import written
from worker.shell.files.places import check_places, open_input

T = TypeVar("T")


class Dice:
    """
    Random choices that are equal on every machine: for a seed, Python guarantees the sequence of
    `Random.random` alone.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random  # noqa: S311  # test data, not secrets

    def number(self, first: int, last: int) -> int:
        """Return a number from first to last, both included."""
        return first + int(self.random() * (last - first + 1))

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]

    def several(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items (all, when there are fewer) in random order."""
        rest = list(items)
        chosen = []
        for _ in range(min(count, len(rest))):
            at = int(self.random() * len(rest))
            chosen.append(rest[at])
            rest[at] = rest[-1]
            rest.pop()
        return chosen

    def chance(self, probability: float) -> bool:
        return self.random() < probability


LANGUAGES = ("en", "de", "es", "ru", "ar", "hi", "zh", "ja")
TEMPLATES = ("product", "job", "flat", "weather", "figures", "legal")

# Kinds of words: what the lists call them, and how many of the language's an article uses.
_WORDS = {
    "D": ("determiner", 7),
    "P": ("preposition", 9),
    "C": ("conjunction", 6),
    "R": ("adverb", 6),
    "A": ("adjective", 15),
    "N": ("noun", 30),
    "V": ("verb", 20),
}
_NAMES = 14


class Language:
    """The words and patterns of one language: a file of lines "key: values"."""

    def __init__(self, code: str) -> None:
        self.code = code
        lines = (
            (files("worker.devkit.sample") / "languages" / f"{code}.txt")
            .read_text("utf-8")
            .splitlines()
        )
        values: dict[str, list[str]] = {}
        for line in lines:
            key, _, value = line.partition(": ")
            values.setdefault(key, []).append(value)
        single = {
            key: {"space": " ", "none": ""}.get(given[0], given[0]) for key, given in values.items()
        }
        self.joiner = single["joiner"]  # empty where words are written without spaces
        self.comma, self.stop = single["comma"], single["stop"]
        self.charsets = single["charset"].split()
        self.words = {letter: single[category].split() for letter, (category, _) in _WORDS.items()}
        self.syllables = single["syllable"].split()
        self.patterns = [pattern.split() for pattern in values["pattern"]]
        self.adverts = single["advert"].split("|")
        self.shorts = single["short"].split("|")
        # Title and paragraphs with slots.
        self.templates = {kind: single[kind] for kind in TEMPLATES}


load_language = cache(Language)  # each is read once a process


class Lexicon:
    """
    One article's words: its share of the language's, and names of its own, a third of its nouns.

    So unrelated articles share no more shingles than chance gives them.
    """

    def __init__(self, language: Language, dice: Dice) -> None:
        self.language = language
        self._dice = dice
        chosen = {
            letter: dice.several(language.words[letter], count)
            for letter, (_, count) in _WORDS.items()
        }
        names = [self.name() for _ in range(_NAMES)]
        slots = chosen | {"M": names, "N": [*chosen["N"], *names]}
        self._patterns = [[slots.get(slot) for slot in pattern] for pattern in language.patterns]

    def name(self) -> str:
        dice = self._dice
        language = self.language
        return "".join(
            [dice.pick(language.syllables) for _ in range(dice.number(2, 3))]
        ).capitalize()

    def sentence(self) -> str:
        language = self.language
        random = self._dice.random
        words: list[str] = []
        at = int(random() * len(self._patterns))
        for slot, pick in zip(language.patterns[at], self._patterns[at], strict=True):
            if pick is not None:
                words.append(pick[int(random() * len(pick))])
            elif slot == "#":
                words.append(str(2 + int(random() * 4_998)))
            elif words:
                words[-1] += language.comma
        text = language.joiner.join(words) + language.stop
        return text[0].upper() + text[1:]

    def title(self) -> str:
        dice = self._dice
        language = self.language
        words = [*dice.several(language.words["N"], 2), self.name(), dice.pick(language.words["A"])]
        text = language.joiner.join(words)
        return text[0].upper() + text[1:]


_SENTENCES = (15, 90)  # about 130 to 800 words


@dataclass(frozen=True)
class Article:
    """`group` is the same for an article and every copy of it, edited or not."""

    group: str
    language: Language
    lexicon: Lexicon
    title: str
    paragraphs: tuple[tuple[str, ...], ...]


def write_article(group: str, language: Language, dice: Dice) -> Article:
    """Write a new article; short ones are more frequent than long ones."""
    lexicon = Lexicon(language, dice)
    shortest, longest = _SENTENCES
    count = shortest + int((longest - shortest) * dice.random() * dice.random())
    paragraphs = []
    while count > 0:
        size = min(count, dice.number(3, 6))
        paragraphs.append(tuple([lexicon.sentence() for _ in range(size)]))
        count -= size
    return Article(group, language, lexicon, lexicon.title(), tuple(paragraphs))


def edited(article: Article, dice: Dice) -> Article:
    """
    Return the article with one small edit, as editors make them: a word, the title, a sentence more
    or less.
    """
    paragraphs = [list(paragraph) for paragraph in article.paragraphs]
    paragraph = dice.pick(paragraphs)
    at = dice.number(0, len(paragraph) - 1)
    edit = dice.number(0, 3)
    if edit == 0:
        return replace(article, title=article.lexicon.title())
    if edit == 1:
        paragraph.insert(at, article.lexicon.sentence())
    elif edit == 2 and len(paragraph) > 1:
        del paragraph[at]
    else:
        paragraph[at] = _with_another_word(paragraph[at], article, dice)
    return replace(article, paragraphs=tuple(tuple(sentences) for sentences in paragraphs))


def _with_another_word(sentence: str, article: Article, dice: Dice) -> str:
    """
    Return the sentence with one word replaced, or with a few characters where words are not apart.
    """
    name = article.lexicon.name()
    if article.language.joiner:
        words = sentence.split(" ")
        at = dice.number(1, len(words) - 2)
        words[at] = name
        return " ".join(words)
    at = dice.number(1, max(1, len(sentence) - 4))
    return sentence[:at] + name + sentence[at + len(name) :]


PAGES_MAX = 350  # pages of one template, at most
_SLOT = re.compile(r"{(?:(\d+)-)?(\w+)}")


def fill_template(kind: str, group: str, language_code: str, dice: Dice) -> Article:
    """
    Return a page of a kind's template as an article. To a reader it is another page than all others
    of its kind.

        {99}, {1950-2020}    a number up to the one, from the one to the other
        {N}, {A}             a word of that kind
        {M}; {a}, {b}        an invented name; names that stay the same all over the page
    """
    language = load_language(language_code)
    lexicon = Lexicon(language, dice)
    names = {name: lexicon.name() for name in "ab"}

    def fact(slot: re.Match[str]) -> str:
        first, name = slot.groups()
        if name.isdecimal():
            return str(dice.number(int(first or int(name) // 10 + 1), int(name)))
        return names.get(name) or (
            lexicon.name() if name == "M" else dice.pick(language.words[name])
        )

    title, *paragraphs = _SLOT.sub(fact, language.templates[kind]).split("|")
    return Article(group, language, lexicon, title, tuple((paragraph,) for paragraph in paragraphs))


# Of the web: sectioning elements; div with ids; a table of three columns; a weblog; a list article;
# a slide show.
_LAYOUTS = (
    (files("worker.devkit.sample") / "layouts.html").read_text("utf-8").rstrip().split("\n\n")
)
_LEGACY_CHARSET = 0.25  # share of the sites whose language has such a charset


class Site:
    """
    One host: how it wraps an article in menus, teasers, advertisements and a footer, which copies
    elsewhere do not share.
    """

    def __init__(self, name: str, language_code: str, layout: int, dice: Dice) -> None:
        language = load_language(language_code)
        legacy = language.charsets[1:]
        self.host = f"www.{name}.example"
        self.language = language_code
        self.layout = _LAYOUTS[layout % len(_LAYOUTS)]
        self.lexicon = Lexicon(language, dice)
        menu = "".join(
            _item(f"/{at}", word) for at, word in enumerate(dice.several(language.words["N"], 8))
        )
        self.menu = f"<ul>{menu}</ul>"
        self.charset = dice.pick(legacy) if legacy and dice.chance(_LEGACY_CHARSET) else "utf-8"
        self.charset_in_header = dice.chance(0.5)  # in HTTP's header, else in a meta element
        charset = f"; charset={self.charset}" if self.charset_in_header else ""
        chunked = "\r\nTransfer-Encoding: chunked" if dice.chance(0.2) else ""
        self.header = (
            f"HTTP/1.1 200 OK\r\nServer: sample\r\nContent-Type: text/html{charset}{chunked}"
        )
        self.footer = (
            f"© {self.lexicon.name()} | {' | '.join(dice.several(language.words['N'], 4))}"
        )


def render(site: Site, article: Article, dice: Dice) -> str:
    """Return the page: the article as it is, everything around it as the moment has it."""
    meta = "" if site.charset_in_header else f'<meta charset="{site.charset}">'
    head = (
        f'<!DOCTYPE html>\n<html lang="{site.language}"><head>{meta}'
        f"<title>{article.title} – {site.host}</title><style>body{{margin:0}}</style>"
        f'<script>var session="{dice.number(10**8, 10**9)}";</script></head>\n'
    )
    texts = [site.lexicon.language.joiner.join(sentences) for sentences in article.paragraphs]
    body = [f"{text}\n" if text.startswith("<table>") else f"<p>{text}</p>\n" for text in texts]
    if len(body) > 2:
        body.insert(
            dice.number(1, len(body) - 1), f'<div class="advert">{_advert(site, dice)}</div>\n'
        )
    adverts = [f'<a href="/go?{dice.number(1, 9999)}">{_advert(site, dice)}</a>' for _ in range(3)]
    page = site.layout.format(
        title=article.title,
        body="".join(body),
        items="".join(f"<li>{part}</li>" for part in body),
        slides="".join(f'<div class="gallery-slide">{part}</div>' for part in body),
        menu=site.menu,
        side="".join(f'<div class="ad">{advert}</div>' for advert in adverts),
        teasers="".join(
            _item(f"/{dice.number(1, 99_999)}", site.lexicon.title()) for _ in range(4)
        ),
        footer=site.footer,
    )
    return f"{head}<body>{page}</body></html>\n"


def _item(target: str, text: str) -> str:
    return f'<li><a href="{target}">{text}</a></li>'


def _advert(site: Site, dice: Dice) -> str:
    language = site.lexicon.language
    phrases = f"{language.joiner or ' '}".join(dice.several(language.adverts, 2))
    return f"{site.lexicon.name()} {phrases} {dice.number(3, 999)} €"


ROTATING = "rotating"
_ROTATING_SHARE = 0.2  # of the article's characters, in advertisements


def rotating_page(site: Site, article: Article, dice: Dice) -> str:
    """
    Return an article in plain text, as archives without markup have it, with the moment's
    advertisements before it, behind it, and between two of its paragraphs.
    """
    language = article.language
    paragraphs = [language.joiner.join(sentences) for sentences in article.paragraphs]
    wanted = _ROTATING_SHARE * sum(map(len, paragraphs))
    shown = ["", "", ""]
    while sum(map(len, shown)) < wanted:
        shown[dice.number(0, 2)] += f"{_advert(site, dice)}\n{site.lexicon.sentence()}\n"
    middle = dice.number(1, max(1, len(paragraphs) - 1))
    parts = [
        shown[0],
        article.title,
        *paragraphs[:middle],
        shown[1],
        *paragraphs[middle:],
        shown[2],
    ]
    return "\n".join(parts)


FIRST_FETCH_S = 1_709_251_200  # 2024-03-01T00:00:00Z
RELATIONS = {
    **{
        "original": 44,
        "syndicated": 11,
        "recrawl": 9,
        "edited": 7,
        "mirror": 5,
        ROTATING: 3,
        "short": 6,
        "damaged": 3,
    },
    **dict.fromkeys(TEMPLATES, 2),
}
RECENT_MAX = 2_000
ROTATING_MAX = 200  # articles in plain text that may get another copy
_DOCUMENTS_PER_SITE = 150
_SITES = (4 * len(LANGUAGES), 600)
_DRAWN = tuple(relation for relation, share in RELATIONS.items() for _ in range(share))
_HARMS = ("flipped-bits", "no-header", "empty", "cut", "invalid-bytes")
_EXPECTED = {"flipped-bits": "unreadable", "no-header": "unreadable", "empty": "skipped"}


class SampleCapture(NamedTuple):
    """
    One record of the crawl and its truth. `harm`: how the record itself is damaged when it is
    written, or None.
    """

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
    body: bytes


def crawl(documents: int, seed: int, *, damaged: bool = True) -> Iterator[SampleCapture]:
    """
    Yield the captures of a synthetic crawl, in the order of their fetch times; 0.4 ms each.

    Args:
        damaged: whether some are damaged. Without them, the other captures differ, too.
    """
    drawn = _DRAWN if damaged else tuple(name for name in _DRAWN if name != "damaged")
    dice = Dice(seed)
    fewest, most = _SITES
    count = min(most, max(fewest, documents // _DOCUMENTS_PER_SITE))
    languages = len(LANGUAGES)
    sites = []
    for number in range(count):
        # Another layout for each site of a language, and all of them over the first languages.
        layout = number // languages + number % languages
        sites.append(Site(f"site{number}", LANGUAGES[number % languages], layout, dice))
    by_language = {code: [site for site in sites if site.language == code] for code in LANGUAGES}
    recent: list[_Known] = []
    rotating: list[Article] = []
    templated: dict[str, tuple[int, Site]] = {}
    fetched_at_s = FIRST_FETCH_S
    articles = harmed = 0
    for _ in range(documents):
        fetched_at_s += dice.number(1, 3)
        relation = dice.pick(drawn) if recent else "original"
        if relation == "short":
            yield _short(dice.pick(sites), fetched_at_s, dice)
            continue
        if relation == ROTATING:
            yield _rotating(dice.pick(sites), rotating, fetched_at_s, dice)
            continue
        if relation == "damaged":
            yield _damaged(
                dice.pick(sites), fetched_at_s, _HARMS[harmed % len(_HARMS)], harmed, dice
            )
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
        language = known.site.language
        group = known.article.group
        expected = "new" if relation in TEMPLATES else "verdict"
        yield SampleCapture(
            known.url,
            fetched_at_s,
            known.site.header,
            known.body,
            group,
            relation,
            language,
            expected,
        )


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
    return _captured(
        of.article,
        site,
        f"http://{site.host}/news/{of.article.group}-{dice.number(1, 999)}.html",
        dice,
    )


def _next_page(kind: str, last: tuple[int, Site] | None, dice: Dice) -> tuple[int, Site]:
    """Return the number of a kind's next page, and its site."""
    number = last[0] + 1 if last else 0
    if last and number % PAGES_MAX:
        return number, last[1]
    template = number // PAGES_MAX
    # 3: all of them, in turn.
    language = LANGUAGES[(TEMPLATES.index(kind) + 3 * template) % len(LANGUAGES)]
    return number, Site(f"{kind}{template}", language, template, dice)


def _captured(article: Article, site: Site, url: str, dice: Dice) -> _Known:
    body = render(site, article, dice).encode(site.charset, "xmlcharrefreplace")
    return _Known(article, site, url, body)


def _short(site: Site, fetched_at_s: int, dice: Dice) -> SampleCapture:
    """A page of a few words; many of them name somebody and so are nearly unique."""
    text = dice.pick(site.lexicon.language.shorts)
    if (
        dice.chance(0.5) and site.lexicon.language.joiner
    ):  # elsewhere the phrase would be most of the characters
        text += f" {site.lexicon.name()} {site.lexicon.name()}"
    page = f"<html><head><meta charset=utf-8></head><body><p>{text}</p></body></html>"
    group = f"s{xxhash.xxh64_hexdigest(text.encode())}"
    url = f"http://{site.host}/short/{dice.number(1, 10**9)}"
    header = "HTTP/1.1 200 OK\r\nContent-Type: text/html"
    return SampleCapture(
        url, fetched_at_s, header, page.encode(), group, "short", site.language, "verdict"
    )


def _rotating(site: Site, articles: list[Article], fetched_at_s: int, dice: Dice) -> SampleCapture:
    """A new article in plain text, or one of `articles` on this site, with other advertisements."""
    alike = [article for article in articles if article.language.code == site.language]
    if alike and dice.chance(0.6):
        article = dice.pick(alike)
    else:
        article = write_article(f"r{fetched_at_s}", load_language(site.language), dice)
        articles.append(article)
        del articles[:-ROTATING_MAX]
    url = f"http://{site.host}/text/{article.group}-{fetched_at_s}.txt"
    header = "HTTP/1.1 200 OK\r\nServer: sample\r\nContent-Type: text/plain; charset=utf-8"
    body = rotating_page(site, article, dice).encode()
    return SampleCapture(
        url, fetched_at_s, header, body, article.group, ROTATING, site.language, "verdict"
    )


def _damaged(site: Site, fetched_at_s: int, harm: str, number: int, dice: Dice) -> SampleCapture:
    """A damaged capture. The rest of it is an article that no other page has."""
    article = write_article(f"d{number}", load_language(site.language), dice)
    known = _captured(article, site, f"http://{site.host}/damaged/{number}.html", dice)
    body = known.body
    header = site.header.replace("\r\nTransfer-Encoding: chunked", "")
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
    return SampleCapture(
        known.url, fetched_at_s, header, body, group, "damaged", site.language, expected, broken
    )


_CHUNK_BYTES = 4_096
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
# Of a line of the truth: what it says of a document besides its doc_id, URL and time.
_TOLD = ("group", "relation", "language", "expected")
_LINE_BYTES_MAX = 65_536


def truth_path(archive: Path) -> Path:
    """Return the path of a sample crawl's truth: crawl.truth.jsonl next to crawl.warc.gz."""
    return archive.with_name(
        archive.name.removesuffix(".gz").removesuffix(".warc") + ".truth.jsonl"
    )


def _check_truth(path: Path, archive: Path) -> None:
    """
    Raise StopError if a file is there that is no truth of a sample crawl: nobody has named it.
    """
    if not path.is_file():  # `written` says what cannot be written
        return
    with open_input(str(path)) as stream:
        first = stream.readline(_LINE_BYTES_MAX)
    try:
        is_truth = not first or {*_TOLD} <= {*orjson.loads(first)}
    except (ValueError, TypeError):
        is_truth = False
    if not is_truth:
        raise StopError(
            f"{path} is there and is no truth of a sample crawl, and that of {archive} would take "
            "its place: name another archive, or move the file away"
        )


def write_sample_crawl(
    archive: Path,
    documents: int,
    seed: int,
    passing: Callable[[Iterator[SampleCapture]], Iterator[SampleCapture]] = iter,
    *,
    damaged: bool = True,
) -> Counter[str]:
    """
    Write a crawl and its truth, and return the number of documents by relation. The bytes depend on
    these arguments only.

    Args:
        damaged: whether some of the documents are damaged.
        passing: wraps the captures, to show progress; it yields them unchanged.
    Raises:
        ValueError: no documents.
        StopError: a file cannot be written, or another file is in the place of the truth.

    Cost: about 0.5 ms per document, some 50 MB of memory however many there are.
    """
    if documents < 1:
        raise ValueError(
            f"documents must be 1 or more, got {documents}: an empty crawl shows nothing"
        )
    relations: Counter[str] = Counter()
    check_places((), (archive, truth_path(archive)))
    _check_truth(truth_path(archive), archive)
    with written(archive) as warc, written(truth_path(archive)) as truth:
        warc.write(_member(_warcinfo(documents, seed)))
        for capture in passing(crawl(documents, seed, damaged=damaged)):
            warc.write(_record_bytes(capture))
            truth.write(_truth(capture))
            relations[capture.relation] += 1
    return relations


def _record_bytes(capture: SampleCapture) -> bytes:
    """Return the record's bytes in the file, damaged as the capture says."""
    payload = _chunked(capture.body) if "chunked" in capture.header else capture.body
    digest = base64.b32encode(hashlib.sha1(capture.body, usedforsecurity=False).digest()).decode()
    fields = {
        "WARC-Type": "response",
        "WARC-Record-ID": _record_id(capture.url, capture.fetched_at_s),
        "WARC-Target-URI": capture.url,
        "WARC-Date": _warc_date(capture.fetched_at_s),
        "WARC-Payload-Digest": f"sha1:{digest}",
        "Content-Type": "application/http; msgtype=response",
    }
    record = _warc(fields, capture.header.encode() + b"\r\n\r\n" + payload)
    if capture.harm == "no-header":
        record = b"\r\n".join(record.split(b"\r\n")[3:])
    member = _member(record)
    if capture.harm == "flipped-bits":
        middle = len(member) // 2
        member = (
            member[:middle]
            + bytes(byte ^ 0x55 for byte in member[middle : middle + 64])
            + member[middle + 64 :]
        )
    return member


def _warcinfo(documents: int, seed: int) -> bytes:
    fields = {
        "WARC-Type": "warcinfo",
        "WARC-Record-ID": _record_id("warcinfo", seed),
        "WARC-Date": _warc_date(FIRST_FETCH_S),
        "Content-Type": "application/warc-fields",
    }
    told = f"software: neardup sample-crawl\r\ndocuments: {documents}\r\nseed: {seed}\r\n"
    return _warc(fields, f"{told}format: WARC File Format 1.0\r\n".encode())


def _warc(fields: dict[str, str], block: bytes) -> bytes:
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"WARC/1.0\r\n{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


def _record_id(name: str, number: int) -> str:
    """Return a name-based UUID, so that the same crawl has the same ids."""
    digits = hashlib.sha256(f"{name} {number}".encode()).hexdigest()
    return (
        f"<urn:uuid:{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}>"
    )


def _warc_date(seconds: int) -> str:
    return format_timestamp(seconds * 1_000)[:-5] + "Z"


def _chunked(body: bytes) -> bytes:
    parts = []
    for start in range(0, len(body), _CHUNK_BYTES):
        chunk = body[start : start + _CHUNK_BYTES]
        parts.append(b"%x\r\n%b\r\n" % (len(chunk), chunk))
    return b"".join(parts) + b"0\r\n\r\n"


def _member(record: bytes) -> bytes:
    """
    Return one gzip member. Huffman coding alone: the implementations of zlib find different
    matches, but build the same codes, and the bytes shall be equal on every machine.
    """
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
    data = deflate.compress(record) + deflate.flush()
    tail = zlib.crc32(record).to_bytes(4, "little") + (len(record) & 0xFFFF_FFFF).to_bytes(
        4, "little"
    )
    return _GZIP_HEADER + data + tail


def _truth(capture: SampleCapture) -> bytes:
    fetched_at_ms = capture.fetched_at_s * 1_000
    doc_id = derive_doc_id(capture.url, fetched_at_ms)
    fetched_at = format_timestamp(fetched_at_ms)
    told = {name: getattr(capture, name) for name in _TOLD}
    return orjson.dumps(
        {"doc_id": doc_id, "url": capture.url, "fetched_at": fetched_at, **told},
        option=orjson.OPT_APPEND_NEWLINE,
    )
