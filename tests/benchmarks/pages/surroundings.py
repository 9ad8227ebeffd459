"""The same page in fourteen other surroundings: what changes around an article while it stays the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence

_BODY = re.compile(r"<body[^>]*>", re.IGNORECASE)
_CONSENT = (
    "<p>We use cookies and similar technologies to personalise content and ads, to provide social media features and "
    "to analyse our traffic. By continuing you agree to our <a href='/privacy'>privacy policy</a>.</p>"
    "<button>Accept all</button><button>Reject</button>"
)


class _Scenery:
    """Sentences, titles and promotional texts that pages are surrounded with."""

    def __init__(self, sentences: Sequence[str], promotions: Sequence[str], seed: int) -> None:
        self.dice = random.Random(seed)
        self._sentences, self._promotions = sentences, promotions

    def sentence(self) -> str:
        return self.dice.choice(self._sentences)

    def title(self) -> str:
        return self.sentence()[:70].rsplit(" ", 1)[0]

    def links(self, count: int) -> str:
        items = (f"<li><a href=/x/{self.dice.randrange(9_999)}>{self.title()}</a></li>" for _ in range(count))
        return f"<ul>{''.join(items)}</ul>"

    def teasers(self, count: int) -> str:
        one = "<div><h4><a href=/y>{}</a></h4><p>{}</p></div>"
        return "".join(one.format(self.title(), self.sentence()) for _ in range(count))

    def comments(self, count: int, name: str) -> str:
        one = f'<div class="{name}"><p>{{}} {{}}</p></div>'
        return "".join(one.format(self.sentence(), self.sentence()) for _ in range(count))

    def advert(self, name: str) -> str:
        text, link = self.dice.choice(self._promotions), self.dice.choice(self._promotions)[:60]
        return f'<div class="{name}"><p>{text}</p><a href="https://ads.example/">{link}</a></div>'


def _at_start(page: str, what: str) -> str | None:
    found = _BODY.search(page)
    return page[: found.end()] + what + page[found.end() :] if found else None


def _at_end(page: str, what: str) -> str | None:
    at = page.lower().rfind("</body")
    return page[:at] + what + page[at:] if at > 0 else None


def _in_text(page: str, what: str) -> str | None:
    ends = [found.end() for found in re.finditer(r"</p>", page, re.IGNORECASE)]
    at = ends[len(ends) // 2] if ends else 0
    return page[:at] + what + page[at:] if at else None


def _around(page: str, first: str, second: str) -> str | None:
    page = _at_start(page, first) or ""
    return _at_end(page, second)


def _others(page: str, other: str) -> str | None:
    """The page with another's nav, footer and aside."""
    swapped = page
    for tag in ("nav", "footer", "aside"):
        element = re.compile(rf"<{tag}\b[^>]*>.*?</{tag}>", re.IGNORECASE | re.DOTALL)
        mine, theirs = list(element.finditer(swapped)), element.findall(other)
        if mine and theirs:
            swapped = swapped[: mine[-1].start()] + theirs[-1] + swapped[mine[-1].end() :]
    return swapped if swapped != page else None


_Change = Callable[[_Scenery, str, str], str | None]
SURROUNDINGS: dict[str, _Change] = {
    "advertisement in the text, class ad": lambda s, page, _: _in_text(page, s.advert("ad ad-slot")),
    "advertisement in the text, class c7": lambda s, page, _: _in_text(page, s.advert("c7")),
    "two around it, class advert": lambda s, page, _: _around(page, s.advert("advert"), s.advert("advert")),
    "two around it, class c7": lambda s, page, _: _around(page, s.advert("c7"), s.advert("c7")),
    "12 links, class related": lambda s, page, _: _at_end(page, f"<div class='related'>{s.links(12)}</div>"),
    "12 links, no class": lambda s, page, _: _at_end(page, f"<div>{s.links(12)}</div>"),
    "5 links in the text": lambda s, page, _: _in_text(page, f"<div>{s.links(5)}</div>"),
    "8 teasers, class related": lambda s, page, _: _at_end(page, f"<div class='related'>{s.teasers(8)}</div>"),
    "8 teasers, no class": lambda s, page, _: _at_end(page, f"<section>{s.teasers(8)}</section>"),
    "cookie banner, class": lambda s, page, _: _at_start(page, f"<div class='cookie-banner'>{_CONSENT}</div>"),
    "cookie banner, no class": lambda s, page, _: _at_start(page, f"<div class='x1'>{_CONSENT}</div>"),
    "6 comments, class": lambda s, page, _: _at_end(page, f"<div id='comments'>{s.comments(6, 'comment')}</div>"),
    "6 comments, no class": lambda s, page, _: _at_end(page, f"<div id='a1'>{s.comments(6, 'b1')}</div>"),
    "another page's nav, footer, aside": lambda _, page, other: _others(page, other),
}


def in_other_surroundings(
    pages: Sequence[str], sentences: Sequence[str], promotions: Sequence[str], seed: int = 7
) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Name of the change, and the pages that can be changed so: their number and the changed page."""
    scenery = _Scenery(sentences, promotions, seed)
    for name, change in SURROUNDINGS.items():
        changed = [change(scenery, page, pages[(k + 7) % len(pages)]) for k, page in enumerate(pages)]
        yield name, [(k, page) for k, page in enumerate(changed) if page]
