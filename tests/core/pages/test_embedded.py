"""
A page that shows a notice, a loader or a box, and has its text in data, in noscript or in a frame,
is read from there; a page that shows its text is not.
"""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import EXAMPLES
from tests.core.pages.embedded_reference import embedded_pages
from tests.core.pages.made_boxes import box
from tests.core.pages.made_pages import Writer
from tests.core.pages.reference import read
from tests.core.pages.test_scan import scanned, with_slack
from worker.core.compiled import kernel
from worker.core.pages import extract_pages
from worker.core.pages.embedded import DATA, FRAME, NOSCRIPT, page_of
from worker.core.pages.skeleton import (
    DATA_BEGIN,
    DATA_END,
    FRAME_BEGIN,
    FRAME_END,
    NOSCRIPT_BEGIN,
    NOSCRIPT_END,
    REFERENCES_AT,
)

LANGUAGES = ("en", "de", "ru", "zh", "ar", "hi", "ja")
# {d}, {n}, {f}: the text as the value of articleBody, as markup, as the value of an attribute.
EMBEDDED = {
    "data": '<script type="application/ld+json">{{"@type": "NewsArticle", "articleBody": "{d}"}}</script>',
    "data in a graph": "<script type=application/ld+json>{{\"@graph\": [{{\"name\": \"a\"}}, {{\"articleBody\":"
    '"{d}", "author": [], "@type": ["WebPage", "Article"]}}]}}</script>',
    "data behind other data": '<script type="application/ld+json">{{"@type": "WebSite"}}</script><script '
    "type='application/LD+JSON; charset=utf-8'>{{\"@type\":\"Report\", \"articleBody\"\n:\t\"{d}\"}}</script>",
    "noscript": "<noscript><article>{n}</article></noscript>",
    "a script of markup": "<script type=text/template>\n<article>{n}</article></script>",
    "noscript, divs": "<noscript><div class=fallback><div>{n}</div></div></noscript>",
    "frame": '<iframe class=reader srcdoc="{f}"></iframe>',
    "frame in single quotes": "<iframe sandbox srcdoc='<!DOCTYPE html><body>{f}'></iframe>",
}  # fmt: skip
# What may stand on all pages of a site.
WIDGETS = {
    "noscript, divs": EMBEDDED["noscript, divs"],
    "frame": EMBEDDED["frame"],
}
# {m}: what each page of the site shows; {b}: a consent box; {e}: what is embedded.
SHELLS = {
    "a root": "{b}<div id=root><p>{m}</p></div>{e}",
    "an empty root": "{b}<div id=root></div>{e}",
    "Next.js": "{b}<div id=__next><header><a href=/>Home</a></header><p>{m}</p></div>{e}",
    "a main": "<header><a href=/>Home</a></header>{b}<main><p>{m}</p>{e}</main>",
    "a heading": "{b}<main><h1>Please wait</h1><p>{m}</p></main>{e}",
    "an article": "{b}<article><p>{m}</p>{e}</article>",
    "data first": "{e}<div id=app><div class=spinner>{m}</div></div>{b}",
    "Angular": "<app-root><app-loader><p>{m}</p></app-loader></app-root>{b}{e}",
}
CONSENT = ("role", "dialog", "Didomi", "alert")


def embed(name: str, paragraphs: list[str]) -> str:
    """A text as a page embeds it."""
    markup = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return (EMBEDDED | WIDGETS)[name].format(
        d=json.dumps("\n\n".join(paragraphs))[1:-1],
        n=markup,
        f=html.escape(markup),
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_a_page_that_shows_a_notice_is_read_from_what_it_embeds(shell: str) -> None:
    """In any language, with any consent box: the text is the embedded one, and nothing else."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    wrong = []
    for name in EMBEDDED:
        for _ in range(max(EXAMPLES // 25, 1)):
            language = dice.choice(LANGUAGES)
            writer = Writer(language, str(dice.randrange(1 << 30)))
            notice = writer.sentence()
            # What does not say that it is the article has to be longer than the box.
            sentences_max = 20 if "data" in name or name == "noscript" else 8
            consent = box(dice.choice(CONSENT), writer, dice.randrange(1, sentences_max))
            paragraphs = [
                " ".join(writer.sentence() for _ in range(3)) for _ in range(dice.randrange(4, 12))
            ]
            page = "<title>A page</title>" + SHELLS[shell].format(
                m=notice, b=dice.choice(["", consent]), e=embed(name, paragraphs)
            )
            text = extract_pages([page]).text(0)
            if text.split() != " ".join(paragraphs).split():
                wrong.append((name, language, page, text))
    assert wrong == [], seed


SENTENCE = "The ferry was late again on Monday, and nobody on the quay could say why it was so. "
STORY = [SENTENCE * 2 + f"Day {k}." for k in range(6)]
SHOWN = "".join(f"<p>{paragraph}</p>" for paragraph in STORY)
OTHER = [SENTENCE.replace("ferry", "tram") * 2 + f"Day {k}." for k in range(6)]
KEPT = {
    "the same text": f"<div>{SHOWN}</div>{{}}",
    "another text of the same length": f"<main><h1>Late</h1>{SHOWN}</main>{{}}",
    "a template": "<p>We are loading.</p><template>{}</template>",
    "a comment": "<p>We are loading.</p><!--{}-->",
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("kind", EMBEDDED)
def test_a_page_that_shows_its_text_keeps_it(name: str, kind: str) -> None:
    """Nor is anything read that a browser would not find."""
    with_it = KEPT[name].format(embed(kind, STORY if name == "the same text" else OTHER))
    pages = extract_pages([KEPT[name].format(""), with_it])
    assert pages.text(0) == pages.text(1)


SHORT = ["The tram was late.", "Nobody knew why."]


@pytest.mark.parametrize("kind", EMBEDDED)
def test_too_little_is_not_read(kind: str) -> None:
    """A line for those without scripts is no text, whatever stands beside it."""
    page = "<p>We are loading the page.</p>" + embed(kind, SHORT)
    assert extract_pages([page]).text(0) == "We are loading the page."


NOTICE = [
    "JavaScript is not available.",
    "We have detected that JavaScript is disabled in this browser. Please enable JavaScript or "
    "switch to a supported browser to continue. A list of them is in our Help Center.",
]
WRAPPERS = ["<main class=newsletter>", "<div class=modal-open>", "<article class=overlay-page>"]
ITEM = "<h1>A hat of wool</h1><p>Knitted by hand in Galway, of the wool of two sheep.</p>"


@pytest.mark.parametrize("kind", EMBEDDED)
@pytest.mark.parametrize("wrapper", [*WRAPPERS, "<div role=dialog>"])
def test_an_article_that_is_named_like_a_dialog_is_not_replaced(wrapper: str, kind: str) -> None:
    """Else all articles of a site would be one notice."""
    page = wrapper + f"<h1>Late</h1><p>{SENTENCE * 4}</p>" * 12
    assert extract_pages([page + embed(kind, NOTICE)]).text(0) == extract_pages([page]).text(0)


@pytest.mark.parametrize("kind", WIDGETS)
def test_two_sentences_of_a_page_are_not_replaced(kind: str) -> None:
    """By what may be the same on all pages of the site: nothing says that it is the article."""
    page = f"<main>{ITEM}<p>{SENTENCE * 2}</p></main>"
    assert extract_pages([page + embed(kind, OTHER)]).text(0) == extract_pages([page]).text(0)


@pytest.mark.parametrize(
    "kind", [kind for kind in EMBEDDED if kind == "noscript" or "data" in kind]
)
def test_two_sentences_are_replaced_by_the_article(kind: str) -> None:
    """An offer of a subscription, or a longer notice: the page says what its article is."""
    page = f"<div><p>{SENTENCE * 4}</p></div>"
    article = [f"{sentence} {SENTENCE}" for sentence in OTHER]
    assert extract_pages([page + embed(kind, article)]).text(0).split() == " ".join(article).split()


@pytest.mark.parametrize("kind", ["noscript, divs", "frame"])
def test_a_short_article_in_a_dialog_is_not_replaced(kind: str) -> None:
    """By a notice that is longer than most: the dialog counts there."""
    page = f"<title>A hat</title><div role=dialog><h1>A hat</h1><p>{SENTENCE * 9}</p></div>"
    notice = [f"{NOTICE[1]} {NOTICE[1]}", NOTICE[1]]
    assert extract_pages([page + embed(kind, notice)]).text(0) == extract_pages([page]).text(0)


def test_a_template_of_the_site_replaces_nothing() -> None:
    """Neither one without a landmark, nor one with places to fill in; and it hides no noscript."""
    shown = f"<div><p>{SENTENCE} {SENTENCE}</p></div>"
    story = " ".join(OTHER * 2)
    for template in (
        f"<div><p>{story}</p></div>",
        f"<article><h1>{{{{title}}}}</h1><p>{story}</p></article>",
        f"<article><h1><%= title %></h1><p>{story}</p></article>",
    ):
        script = f"<script type=text/template>{template * 4}</script>"
        for page in (shown, "<p>We are loading.</p>"):
            assert extract_pages([page + script]).text(0) == extract_pages([page]).text(0)
        page = "<p>We are loading.</p>" + script + embed("noscript", STORY)
        assert extract_pages([page]).text(0).split() == " ".join(STORY).split()


def test_a_notice_about_scripts_replaces_nothing() -> None:
    """It has two sentences or three, and stands on all pages of a site."""
    page = f"<main>{ITEM}</main>"
    alone = extract_pages([page]).text(0)
    assert extract_pages([page + embed("noscript", NOTICE)]).text(0) == alone


BODIES = {
    "text alone": ("The ferry was late.", "The ferry was late."),
    "a comment's begin": ("Late. <!-- Nobody knew.", "Late. <!-- Nobody knew."),
    "a comment": ("Late. <!-- wp:paragraph --> Nobody knew.", "Late. Nobody knew."),
    "tags": ("<p>Late.</p><p>Nobody <b>kn</b>ew.<br/>So.", "Late. Nobody knew. So."),
    "an element that hides": ("Write <script> and <textarea> there.", "Write and there."),
    "a tag without an end": ("If a <b then it is < c.", "If a <b then it is < c."),
    "half a tag": ("A <a href='x and <i>so</i> on", "A <a href='x and so on"),
    "declarations": ("A <!x and <?y and </ z> too", "A <!x and <?y and </ z> too"),
    "references": ("Salt &amp; pepper, &lt;b>", "Salt & pepper, <b>"),
    "the end of the title": ("</title></article>Late.", "Late."),
}


@pytest.mark.parametrize("name", BODIES)
def test_an_article_in_data_is_text(name: str) -> None:
    """What looks like markup hides nothing behind it; tags alone go."""
    written, text = BODIES[name]
    script = embed("data", [written, *STORY])
    assert extract_pages([script]).text(0).split() == [*text.split(), *" ".join(STORY).split()]


def test_the_longest_data_may_have_no_article() -> None:
    """A shop's list of products beside the article is longer than it, and says nothing."""
    products = json.dumps([{"@type": "Product", "name": SENTENCE} for _ in range(100)])
    script = f"<script type=application/ld+json>{products}</script>"
    texts = extract_pages([script + embed("data", STORY), embed("data", STORY) + script])
    assert [texts.text(0).split(), texts.text(1).split()] == [" ".join(STORY).split()] * 2


def test_all_articles_of_the_data_are_read() -> None:
    """A live blog has one per update; a list of posts would else be one of them."""
    updates = [{"@type": "BlogPosting", "articleBody": text} for text in STORY]
    blog = json.dumps({"@type": "LiveBlogPosting", "liveBlogUpdate": updates})
    page = f"<script type=application/ld+json>{blog}</script>"
    assert extract_pages([page]).text(0).split() == " ".join(STORY).split()


def test_the_title_stays_whole() -> None:
    """However many characters it has that are references in a page."""
    title = "&amp;" * 200
    page = f"<title>{title}</title>" + embed("data", STORY)
    assert extract_pages([page], fields=("title",)).text(0) == "&" * 200


def test_all_fields_and_the_next_page_are_right() -> None:
    """The embedded text may be longer than the page's; pages behind it are as if it were alone."""
    page = "<title>A &lt;b> &amp; c</title><p>Wait.</p>" + embed("frame", ["<h2>Late</h2>", *STORY])
    page = page.replace("&lt;p&gt;&lt;h2", "&lt;h2").replace("h2&gt;&lt;/p", "h2")
    alone = f"<p>{SENTENCE}</p>"
    pages = extract_pages([page, alone], fields=("title", "body"))
    assert pages.text(0) == "A <b> & c"
    assert [pages.text(1).count(SENTENCE.strip()), pages.text(3)] == [12, SENTENCE.strip()]


@pytest.mark.parametrize("kind", EMBEDDED)
def test_the_pages_beside_it_change_nothing(kind: str) -> None:
    """What is embedded may have more tags than its page: a frame's stand there as references."""
    links = [f"<ul><li><a href=/{j}>{SENTENCE}</a></li></ul>" for j in range(9)]
    page = "<p>Wait.</p>" + embed(kind, ["</p><p>".join([*STORY, *links])] * 4)
    alone = extract_pages([page]).text(0)
    assert STORY[0] in alone
    beside = extract_pages(["<p>a</p>" * 1_000, page, page])
    assert [beside.text(1), beside.text(2)] == [alone, alone]


# ---- the kernel equals its definition


@kernel
def _embed_one(data: Any, state: Any) -> Any:
    table = state[REFERENCES_AT]
    data_page, data_size = page_of(data, state[DATA_BEGIN], state[DATA_END], DATA, table)
    plain, plain_size = page_of(data, state[NOSCRIPT_BEGIN], state[NOSCRIPT_END], NOSCRIPT, table)
    frame, frame_size = page_of(data, state[FRAME_BEGIN], state[FRAME_END], FRAME, table)
    return data_page[:data_size], plain[:plain_size], frame[:frame_size]


def kernel_pages(page: bytes, is_xml: bool) -> list[bytes]:
    """What the kernel makes of what a page embeds."""
    found = _embed_one(with_slack(page), scanned(page, is_xml).state)
    none = b"<article></article>"  # of a kind that the page has not
    return [b"" if made.tobytes().endswith(none) else bytes(made.tobytes()) for made in found]


BITS = r"""<script_type=application/ld+json> </script> <script> <noscript> </noscript> <iframe_srcdoc="
<iframe_SRCDOC='a <iframe_srcdoc=&lt;p&gt;a> </iframe> "articleBody" : "articleBody":" " ' > { } , \" \\ \n \r \t \u
\u00e9 \ud83d \ude00 \u000a \u0000 \uFFFF \/ \é é 文 "NewsArticle" "@type":"Report" <!--a --> \\u003c <b <br/> </p &amp; &lt; &nGt; &#10; & <p> </p> <svg> </svg> <template>
</template> <title> </title> <div> {{ <% <!-- --> word / /> <math> <![CDATA[""".split()  # noqa: SIM905


def random_page(dice: random.Random) -> str:
    """A page of few kinds of markup, some cut off."""
    bits = [bit.replace("_", " ") for bit in dice.sample(BITS, dice.randrange(4, 20))]
    bits += dice.sample(
        ["<script type=application/ld+json>", '"Article"', '"articleBody":"', '"', "</script>"], 4
    )
    page = "".join(dice.choices(bits, k=dice.randrange(60)))
    return page[: dice.randrange(len(page) + 1) if dice.random() < 0.2 else None]


def test_what_is_embedded_equals_its_definition() -> None:
    """On random pages, of which many embed something."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    count = 0
    for _ in range(20 * EXAMPLES):
        page = random_page(dice).encode()
        for is_xml in (False, True):
            expected = embedded_pages(read(page, is_xml))
            assert kernel_pages(page, is_xml) == expected, (seed, page, is_xml)
        count += any(expected)
    assert count * 20 >= 20 * EXAMPLES, seed


HOSTILE: dict[str, Callable[[int], str]] = {
    "strings without an end": lambda n: '"articleBody":"' * n,
    "names without a string": lambda n: '"articleBody" ' * n,
    "backslashes": lambda n: '"articleBody":"' + "\\" * (2 * n) + '"',
    "line breaks": lambda n: '"articleBody":"' + "\\n" * n + '"',
    "no digits": lambda n: '"articleBody":"' + "\\u" * n + '"',
    "references": lambda n: '"articleBody":"' + "&nGt;" * n + '"',
}


def written(page: bytes) -> int:
    """How many bytes of text the page, and all that it embeds, write into the room's array at most."""
    return max(len(read(made).out) for made in (page, *embedded_pages(read(page))))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_data_is_read(name: str) -> None:
    """However long, and within the array: a line break becomes more bytes than it has."""
    data = HOSTILE[name](20_000)
    page = f"<script type=application/ld+json>{data}</script>".encode()
    assert kernel_pages(page, False) == embedded_pages(read(page))
    assert written(page) <= len(page) + len(page) // 4


NESTED: dict[str, Callable[[int], str]] = {
    "noscript": lambda n: "<noscript>" * n,
    "noscript, closed": lambda n: "<noscript><p>a</noscript>" * n,
    "frames": lambda n: "<iframe srcdoc='" * n,
    "frames, closed": lambda n: "<iframe srcdoc='<p>a'></iframe>" * n,
    "frames, longer and longer": lambda n: "".join(
        f"<iframe srcdoc='{'a' * k}'></iframe>" for k in range(int(n**0.5))
    ),
    "frames in noscript": lambda n: "<noscript><iframe srcdoc='&lt;noscript>" * n,
    "frames in frames": lambda n: "<iframe srcdoc='&lt;iframe srcdoc=\"&amp;lt;p>" * n + "'>",
    "data": lambda n: '<script type=application/ld+json>"articleBody":"a"</script>' * n,
    "data in data": lambda n: "<script type=application/ld+json>" * n,
    "attributes": lambda n: "<script " + "type=application/ld+jso " * n + "></script>",
}


@pytest.mark.parametrize("name", NESTED)
def test_what_is_embedded_is_read_once(name: str) -> None:
    """
    However often it is repeated or nested: what is scanned beside the page is no longer than the
    page, but for references and the tags around it.
    """
    page = f"<p>Wait.</p>{NESTED[name](100_000)}"
    raw = page.encode()
    made = kernel_pages(raw, False)
    assert sum(map(len, made)) <= len(raw) * 3 // 2 + 4 * len(b"<article></article>")
    few = f"<p>Wait.</p>{NESTED[name](300)}".encode()
    assert kernel_pages(few, False) == embedded_pages(read(few))
    assert written(few) <= len(few) + len(few) // 4
    assert len(extract_pages([page, "<p>Next.</p>"]).text(1)) == len("Next.")


def test_references_fit() -> None:
    """The reference that grows most."""
    value = "&nGt;" * 20_000
    page = f"<iframe srcdoc='{value}'></iframe>".encode()
    made = kernel_pages(page, False)
    assert made == embedded_pages(read(page))
    assert len(re.findall("≫⃒", made[-1].decode())) == 20_000
