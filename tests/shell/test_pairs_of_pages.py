"""
Two pages of one site are judged by their own words, and a page and its copy by theirs, whatever
else both show: from HTML to the verdict.
"""

from __future__ import annotations

import neardup
import pytest

from tests.core.pages.made_pages import Writer

SITE = Writer("en", "what all pages of a site show")
BOX = "".join(f"<p>{SITE.paragraph()}</p>" for _ in range(9))
OFFER = "".join(f"<p>{SITE.paragraph()}</p>" for _ in range(3))
NAV = f"<ul>{SITE.links(9)}</ul>"
CONSENT = f"<div><h2>{SITE.phrase(2, 3)}</h2>{BOX}<button>No</button><button>I agree</button></div>"
PLAIN = f"<div><h3>{SITE.phrase(2, 3)}</h3>{BOX}</div>"
PENDING = '<!--$?--><template id="B:{0}"></template><p>Loading this part.</p><!--/$-->'

# {h}, {l}, {t}: the heading, a sentence, the paragraphs of a page
KINDS = {
    "a consent box behind, in one wrapper": f"<div>{NAV}<div><h2>{{h}}</h2>{{t}}</div>{CONSENT}</div>",
    "a consent box behind paragraphs": f"<h1>{{h}}</h1>{{t}}{CONSENT}",
    "a nameless box before paragraphs": f"{PLAIN}<h1>{{h}}</h1>{{t}}",
    "a nameless box before, in one wrapper": f"<div>{NAV}{PLAIN}<div><h2>{{h}}</h2>{{t}}</div></div>",
    "rules above a thread": f"<main><section>{BOX}</section><h1>{{h}}</h1>{{t}}</main>",
    "an open dialog": f"<div aria-hidden=true><main><h1>{{h}}</h1>{{t}}</main></div>"
    f"<div role=dialog>{BOX}</div>",
    "a loader": f"<p>{SITE.sentence()}</p><div style='display:none'><main><h1>{{h}}</h1>{{t}}</main></div>",
    "nested slots": f"<main><p>{SITE.sentence()}</p>{PENDING.format(0)}</main>"
    f'<div hidden id="S:0"><h1>{{h}}</h1>{PENDING.format(1)}</div><div hidden id="S:1">{{t}}</div>',
    "a shadow root": f"<x-a><template shadowrootmode=open><h1>{{h}}</h1>{{t}}</template></x-a><p>{BOX}</p>",
    "an offer behind a lead": f"<article><h1>{{h}}</h1><p>{{l}}</p><div><h2>Read on</h2>{OFFER}</div></article>",
}  # fmt: skip


def words(name: str) -> dict[str, str]:
    """What a page says itself."""
    own = Writer("en", name)
    return {
        "h": own.phrase(6, 9),
        "l": own.sentence() + own.sentence(),
        "t": "".join(f"<p>{own.paragraph()}</p>" for _ in range(3)),
    }


def page(body: str, name: str) -> dict[str, str]:
    """A page of a site, with words of its own."""
    own = words(name)
    html = f"<title>{own['h']} | Harbour</title><body>{body.format(**own)}</body>"
    return {"url": f"https://a.example/{name}", "html": html}


@pytest.mark.parametrize("kind", KINDS)
def test_two_pages_of_a_site_are_new(kind: str) -> None:
    """Although both show the same box, and it is longer than what they say themselves."""
    pages = [page(KINDS[kind], name) for name in ("one", "two")]
    verdicts = neardup.Deduplicator().add_many(pages)
    assert [verdict.outcome.value for verdict in verdicts] == ["new", "new"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "{t}" in KINDS[kind]])
def test_a_page_is_a_copy_of_the_same_without_the_box(kind: str) -> None:
    """On another site, in another template."""
    plain = page("<main><h1>{h}</h1>{t}</main>", "one") | {"url": "https://b.example/"}
    first, second = neardup.Deduplicator().add_many([page(KINDS[kind], "one"), plain])
    assert (first.outcome.value, second.outcome.value) == ("new", "duplicate")
