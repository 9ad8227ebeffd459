"""
Pairs of pages of one host at two URLs, made up: the same page under another address, and two pages
that show the site's words and few of their own.

    copies    the same article; its address, its title and what stands around it differ as on the web
    others    two articles, products, videos …; what the server sends of both is mostly the site's

A page's title is "headline | site". Each pair has a site, a language and words of its own, so all
pairs can be judged in one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from neardup import Deduplicator

from worker.devkit.sample.crawl import Dice, Lexicon, load_language

LANGUAGES = ("en", "de", "es", "ru", "ja")
# Sentences of the article, or of what the site says on each page: about 12 words each.
SENTENCES = {"40 words": 3, "80 words": 6, "160 words": 13, "400 words": 33}
DRAWS = 8  # of a kind, a length and a language
FETCHED_AT = "2026-01-02T03:04:05Z"


class SitePage(NamedTuple):
    """One of two pages: its URL, its title, and its HTML below the title."""

    url: str
    title: str
    body: str

    def document(self, name: str, *, has_title: bool) -> dict[str, str]:
        """Return the page as a document; without its title nothing tells it from others."""
        title = f"<title>{self.title}</title>" if has_title else ""
        html = f"<!doctype html><html><head>{title}</head><body>{self.body}</body></html>"
        return {"doc_id": name, "url": self.url, "fetched_at": FETCHED_AT, "html": html}


class Draft:
    """What a pair is made of: a host, a site's name, headlines and sentences."""

    def __init__(self, number: int, language: str, sentences: int, dice: Dice) -> None:
        self.host = f"https://www.site{number}.example"
        self.sentences = sentences
        self.dice = dice
        self.lexicon = Lexicon(load_language(language), dice)
        self.site = self.lexicon.name()
        self.headline = self.lexicon.title()
        self.title = f"{self.headline} | {self.site}"
        self.text = self.prose(sentences)

    def prose(self, sentences: int) -> str:
        """Return new paragraphs of so many sentences."""
        joiner = self.lexicon.language.joiner
        made = [self.lexicon.sentence() for _ in range(sentences)]
        parts = [joiner.join(made[at : at + 4]) for at in range(0, sentences, 4)]
        return "".join(f"<p>{part}</p>\n" for part in parts)

    def page(self, path: str, title: str, content: str, teasers: int = 3) -> SitePage:
        """Return a page with the site's menu and footer, and so many teasers of other articles."""
        links = "".join(f"<li><a href=/{at}>{self.lexicon.title()}</a></li>" for at in range(8))
        others = "".join(
            f"<li><a href=/t{at}>{self.lexicon.title()}</a></li>" for at in range(teasers)
        )
        body = (
            f"<header><nav><ul>{links}</ul></nav></header><main>{content}</main>"
            f"<aside><ul>{others}</ul></aside><footer><p>© {self.site}</p></footer>"
        )
        return SitePage(self.host + path, title, body)

    def article(self, path: str, title: str, more: str = "") -> SitePage:
        """Return the article under an address and a title."""
        return self.page(path, title, f"<h1>{self.headline}</h1>{self.text}{more}")


Pair = tuple[SitePage, SitePage]


def _again(draft: Draft, path: str, title: str) -> Pair:
    return draft.article("/a", draft.title), draft.article(path, title.format(draft.title))


def _printed(draft: Draft) -> Pair:
    body = f"<h1>{draft.headline}</h1>{draft.text}<p><a href=/a>{draft.host}/a</a></p>"
    again = SitePage(f"{draft.host}/print/a", f"Print: {draft.title}", body)
    return draft.article("/a", draft.title), again


def _localised(draft: Draft) -> Pair:
    own, other = draft.lexicon.name(), draft.lexicon.name()
    return (
        draft.article("/x/a", f"{draft.title} {own}"),
        draft.article("/y/a", f"{draft.title} {other}"),
    )


def _renamed(draft: Draft) -> Pair:
    first = draft.article("/2024/a.html", draft.title)
    return first, draft.article("/news/a", f"{draft.headline} – {draft.lexicon.name()}")


def _retitled(draft: Draft) -> Pair:
    """Another headline in the title alone, and a few other sentences at the end, as of an update."""
    first = draft.article("/a", draft.title)
    added = draft.prose(max(1, draft.sentences // 8))
    return first, draft.article("/a-2", f"{draft.lexicon.title()} | {draft.site}", added)


def _shell(draft: Draft) -> Pair:
    """Nothing of the page's own is in the HTML that the server sends."""
    return _of_site(draft, "")


def _thin(draft: Draft) -> Pair:
    """A tenth of the text is the page's own."""
    return _of_site(draft, "one", max(1, draft.sentences // 9))


def _part(draft: Draft) -> Pair:
    """A quarter of the text is the page's own."""
    return _of_site(draft, "one", max(1, draft.sentences // 3))


def _of_site(draft: Draft, own: str, sentences: int = 0) -> Pair:
    pages = []
    for path in ("/1", "/2"):
        headline = draft.lexicon.title()
        mine = f"<h1>{headline}</h1>{draft.prose(sentences)}" if own else ""
        pages.append(draft.page(path, f"{headline} | {draft.site}", mine + draft.text))
    return pages[0], pages[1]


COPIES: dict[str, Callable[[Draft], Pair]] = {
    "tracking parameters, same title": partial(
        _again, path="/a?utm_source=mail&utm_medium=x", title="{}"
    ),
    "title with a counter": partial(_again, path="/a?ref=app", title="(3) {}"),
    "print view": _printed,
    "first of some pages": partial(_again, path="/a?page=1", title="{} – 1"),
    "localised site name": _localised,
    "site renamed and moved": _renamed,
    "updated under a new title": _retitled,
}
OTHERS: dict[str, Callable[[Draft], Pair]] = {
    "nothing of its own": _shell,
    "a tenth of its own": _thin,
    "a quarter of its own": _part,
}
KINDS = COPIES | OTHERS


class SitePairs(NamedTuple):
    """Pairs of pages, and of each its kind and the length of its text."""

    pairs: list[Pair]
    kinds: list[str]
    lengths: list[str]


def site_pairs(draws: int = DRAWS, seed: int = 1) -> SitePairs:
    """Return so many pairs of each kind, length and language."""
    made = SitePairs([], [], [])
    cells: Iterator[tuple[str, str, str, int]] = product(KINDS, SENTENCES, LANGUAGES, range(draws))
    for number, (kind, length, language, _) in enumerate(cells):
        dice = Dice(seed << 32 | number)
        draft = Draft(number, language, SENTENCES[length], dice)
        made.pairs.append(KINDS[kind](draft))
        made.kinds.append(kind)
        made.lengths.append(length)
    return made


def site_shares(draws: int = DRAWS, seed: int = 1) -> dict[str, dict[str, tuple[float, float]]]:
    """
    Return by kind and length the share of pairs that are called copies: without titles, when
    nothing keeps pages of one host apart, and with them.
    """
    pairs = site_pairs(draws, seed)
    without = called_copies(pairs, has_titles=False)
    titled = called_copies(pairs, has_titles=True)
    kinds, lengths = np.array(pairs.kinds), np.array(pairs.lengths)
    shares: dict[str, dict[str, tuple[float, float]]] = {}
    for kind, length in product(KINDS, SENTENCES):
        mine = (kinds == kind) & (lengths == length)
        shares.setdefault(kind, {})[length] = (
            float(without[mine].mean()),
            float(titled[mine].mean()),
        )
    return shares


def called_copies(pairs: SitePairs, *, has_titles: bool) -> np.ndarray:
    """Return of each pair whether the second page is called a copy of the first."""
    documents = [
        page.document(f"{number}-{at}", has_title=has_titles)
        for at in (0, 1)
        for number, page in enumerate(pair[at] for pair in pairs.pairs)
    ]
    with Deduplicator() as judge:
        verdicts = list(judge.add_many(documents))[len(pairs.pairs) :]
    originals = [
        verdict.duplicate_of and verdict.duplicate_of.original.doc_id for verdict in verdicts
    ]
    return np.array([doc_id == f"{number}-0" for number, doc_id in enumerate(originals)])
