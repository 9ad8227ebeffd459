"""
A page that shows a notice, and has its text in the state of its application, is read from there; its
description joins a notice. A page that shows a text of its own stays as it is.
"""

from __future__ import annotations

import html
import json
import random
from typing import Any

import numpy as np
import pytest

from tests.conftest import EXAMPLES
from tests.core.pages.made_pages import Writer
from tests.core.pages.test_scan import with_slack
from tests.core.pages.told_reference import letters_of, text_of_states, told
from worker.core.compiled import kernel
from worker.core.pages import extract_pages
from worker.core.pages.characters import REFERENCES
from worker.core.pages.told import letters_of_state, state_text, told_of

LANGUAGES = ("en", "de", "ru", "zh", "ar", "hi", "ja")
MESSAGES = json.dumps({f"m{k}": "One more of them. " * 6 for k in range(90)})
# {s}: an object with the text under any key, in JSON; {q}: the same as a string.
STATES = {
    "Next.js": '<script id="__NEXT_DATA__" type="application/json">{s}</script>',
    "Nuxt 2": '<script>window.__NUXT__=(function(a,b){{return {s}}}("x",1));</script>',
    "Nuxt 3": '<script type=application/json id=__NUXT_DATA__>[{s}, "Reactive"]</script>',
    "Apollo": "<script>window.__APOLLO_STATE__ = {s};</script>",
    "Redux": "<script>\n  var __PRELOADED_STATE__ =\n{s}</script>",
    "JSON.parse": "<script>window.__INITIAL_STATE__ = JSON.parse({q})</script>",
    "SvelteKit": '<script type="application/json" data-sveltekit-fetched>{{"status":200,"body":{q}}}</script>',
    "Angular": "<script id=ng-state type=application/json>{s}</script>",
    "in brackets": "<script>window['__STATE__'] = {s}</script>",
    "behind comments": "<script>/* data */\n// don't write it\n<!-- data\nvar state = {s}</script>",
    "in a function": "<script>'use strict'; (function(w){{w.state = {s}}})(window)</script>",
    "a call": "<script>dataLayer.push({s})</script>",
    "an apostrophe's string": "<script>window.__STATE__ = '{a}'</script>",
    "Next.js, streamed": "<script>(self.__next_f=self.__next_f||[]).push([0])</script>"
    "<script>self.__next_f.push([1,{f}])</script>",
    "Next.js, cut in two": "<script>self.__next_f.push([1,{f1}])</script>"
    "<script>self.__next_f.push([1,{f2}])</script>",
    "React Router": "<script>window.__reactRouterContext.streamController.enqueue({q});</script>",
    "Inertia": '<div id=app data-page="{e}"></div>',
    "Vue": "<news-page :article='{e}'></news-page>",
    "Astro": '<astro-island client=only props="{e}"></astro-island>',
    "JSON-LD of another type": '<script type="application/ld+json">{s}</script>',
    "Angular 16": "<script id=ng-state type=application/json>{n}</script>",
    "a custom element": '<x-page text="{p}"></x-page>',
    "an item's properties": '<div itemscope><meta itemprop=articleBody content="{p}"></div>',
    "a block of another type": "<script type=text/markdown>\n{p}\n\n\n</script>",
    "a field": "<textarea readonly>{p}</textarea>",
    "a template": "<template><article>{m}</article></template>",
    "a comment": "<!-- <article>{m}</article> -->",
    "behind one with more": f"<script>window.i18n={MESSAGES.replace('{', '{{').replace('}', '}}')}</script>"
    "<script>a={s}</script>",
    "behind another": "<script>(function(){{}})()</script><script>x={{}}</script><script>a.b={s}</script>",
}
# {m}: what each page of the site shows; {e}: the state.
SHELLS = {
    "a root": "<div id=root><p>{m}</p></div>{e}",
    "Next.js": "<div id=__next><header><a href=/>Home</a></header><p>{m}</p></div>{e}",
    "a head": "<head>{e}</head><body><app-root><app-loader><p>{m}</p></app-loader></app-root>",
    "a footer": "<div class=app><p>{m}</p></div>{e}<footer><p>{m}</p><a href=/>Home</a></footer>",
}
SENTENCE = "The ferry was late again on Monday, and nobody on the quay could say why it was so. "
STORY = [SENTENCE * 2 + f"Day {k}." for k in range(6)]
STATE = json.dumps({"page": {"blocks": [{"text": text} for text in STORY * 10]}})


def escaped_as_angular(state: str) -> str:
    """A state as Angular wrote it before version 17."""
    for name, character in zip("aqslg", "&\"'<>", strict=True):
        state = state.replace(character, f"&{name};")
    return state


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", STATES)
def test_a_page_that_shows_a_notice_is_read_from_its_state(name: str, shell: str) -> None:
    """Under whatever key, as text or as markup, in one string or in many."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    for _ in range(max(EXAMPLES // 25, 1)):
        writer = Writer(dice.choice(LANGUAGES), str(dice.randrange(1 << 30)))
        paragraphs = [" ".join(writer.sentence() for _ in range(9)) for _ in range(8)]
        markup = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
        content = dice.choice([markup, [{"t": "p", "v": text} for text in paragraphs]])
        data = {"url": "/a-b", writer.phrase(1, 1): {"x": 7, "y": content}}
        said = json.dumps(data, ensure_ascii=dice.random() < 0.5)
        flight = f'5:["$","$L9",null,{said}]\n'
        cut = dice.randrange(flight.index("{"), len(flight))  # a first piece is never that short
        state = STATES[name].format(
            s=said,
            q=json.dumps(said, ensure_ascii=False),
            a=said.replace("\\", "\\\\").replace("'", "\\'"),
            e=html.escape(said),
            n=escaped_as_angular(said),
            p=" ".join(paragraphs),
            m=markup,
            f=json.dumps(flight),
            f1=json.dumps(flight[:cut]),
            f2=json.dumps(flight[cut:]),
        )
        page = SHELLS[shell].format(m=writer.sentence(), e=state)
        text = extract_pages([f"<title>A page</title>{page}"]).text(0)
        assert text.split() == " ".join(paragraphs).split(), (seed, page)


WORDS = {f"{k}.text": f"{SENTENCE} {k} {SENTENCE}" for k in "abcdefghij"}


def test_what_a_site_says_elsewhere_is_no_text() -> None:
    """Each of its sentences has a key of its own, and the paragraphs of the page have one."""
    blocks = [{"text": text} for text in STORY]
    state = json.dumps({"words": WORDS, "page": {"blocks": blocks}, "more": {"consent": STORY[0]}})
    shell = "<div id=root><p>We are loading the page.</p></div><script>{}</script>"
    found = extract_pages([shell.format(state), shell.format(json.dumps({"words": WORDS}))])
    assert found.text(0).split() == " ".join(STORY).split()
    assert found.text(1) == "We are loading the page."


OWN = "<p>The tram was late as well, but three of us knew the reason: snow on the points. </p>"
KEPT = {
    "a main with three sentences": f"<main>{OWN * 3}</main>",
    "an article": f"<article>{OWN * 2}</article>",
    "an h1": f"<div><h1>The tram</h1>{OWN * 2}</div>",
    "a heading that repeats the title": f"<div><h2>The tram is late</h2>{OWN}</div>",
    "a text of 400 letters": f"<div>{OWN * 7}</div>",
    "a script": f"<p>Wait.</p><script>{'for (k in a) b(a[k]);' * 200}a = ['{SENTENCE * 6}']</script>",
    "a template": f"<p>Wait.</p><template><script>{STATE}</script></template>",
    "code": f"<p>Wait.</p><script>{json.dumps([f'if (a) {{ {SENTENCE} }}'] * 9)}</script>",
    "addresses": f"<p>Wait.</p><script>{json.dumps(['https://a.example/' + 'a' * 900])}</script>",
}


@pytest.mark.parametrize("name", KEPT)
def test_a_page_with_a_text_of_its_own_keeps_it(name: str) -> None:
    """What a site says on all its pages may stand in the state, too: the words of its buttons."""
    title = "<title>The tram is late - Courier</title>"
    alone = extract_pages([title + KEPT[name].partition("<script")[0]])
    found = extract_pages([f"{title}{KEPT[name]}<script>{STATE if '<s' not in KEPT[name] else 0}"])
    assert found.text(0) == alone.text(0)


def test_a_page_that_is_made_of_its_state_keeps_its_text() -> None:
    """The state holds what is shown, so the rest of it is shown elsewhere, or on all pages."""
    own = "The tram was late as well, but three of us knew the reason: snow."
    told = own.replace("tram", "<a href='/t'>tram</a>").replace("late", "late&nbsp;&amp;\n")
    accented = own.replace("e", "é")
    for shown, text, is_ascii in ((own, own, True), (own, told, False), (accented, accented, True)):
        state = json.dumps({"words": STORY, "page": {"text": text}}, ensure_ascii=is_ascii)
        for script in (state, f"window.s = JSON.parse({json.dumps(state)})"):
            page = f"<div><p>{shown}</p></div><script>{script}</script>"
            assert extract_pages([page]).text(0) == shown


def test_messages_that_hold_the_notice_are_another_state() -> None:
    """The page is made of these alone, and the other state has its text."""
    notice = "We are loading the page that you have asked for, as fast as we can do it."
    words = json.dumps({"words": WORDS, "loading": notice})
    for states in ((words, STATE), (STATE, words), (words, STATE, words)):
        scripts = "".join(f"<script>window.s{k} = {s}</script>" for k, s in enumerate(states))
        found = extract_pages([f"<div id=root><p>{notice}</p></div>{scripts}"])
        assert found.text(0).split() == " ".join(STORY * 10).split()


def test_a_key_goes_on_in_no_other_state() -> None:
    """Two copies of a page have one text, whatever script stands before the state."""
    flat = json.dumps(STORY)
    told = [f"<script>{flat}</script>", f'<i data-a="{STORY[0]}{STORY[1]}{STORY[2]}"></i>']
    told.append(f"<script>f([1, {json.dumps(flat)}])</script>")
    for state in told:
        pages = [
            f"<p>Wait.</p><script>{before}</script>{state}"
            for before in ("{}", '{"text": ""}', json.dumps({"text": SENTENCE}), '["{\\"a\\": 1}"]')
        ]
        found = extract_pages(pages)
        assert STORY[0] in found.text(0)
        assert [found.text(k) for k in range(4)] == [found.text(0)] * 4


def test_an_array_in_a_string_is_read_once() -> None:
    """As data, and not as prose, too; what a bracket begins may be prose."""
    for text in (STORY, [f"[late] {STORY[0]}", *STORY[1:]]):
        page = f"<p>Wait.</p><script>f({json.dumps(json.dumps(text))})</script>"
        assert extract_pages([page]).text(0).split() == " ".join(text).split()
        page = f"<p>Wait.</p><script>f({json.dumps(text)})</script>"
        assert extract_pages([page]).text(0).split() == " ".join(text).split()


def test_the_prose_behind_many_keys_is_not_counted() -> None:
    """The table of keys has an end; what had its place before goes on to be counted."""
    words = {f"message{k}": f"{SENTENCE}{k}" for k in range(6_000)}
    states = [{"text": STORY, "words": words, "more": {"text": STORY}}, {"words": words}]
    pages = [f"<p>Wait.</p><script>{json.dumps(state)}</script>" for state in states]
    found = extract_pages(pages)
    assert found.text(0).split() == " ".join(STORY * 2).split()
    assert found.text(1) == "Wait."


def test_many_messages_stay_apart() -> None:
    """A site has hundreds of them, and none is longer than its own sentence."""
    words = {f"message{k}": f"{SENTENCE}{k}" for k in range(300)}
    page = "<div id=root><p>We are loading the page.</p></div><script>{}</script>"
    states = [json.dumps({"words": words, "page": {"text": text}}) for text in ("", STORY)]
    found = extract_pages([page.format(state) for state in states])
    assert found.text(0) == "We are loading the page."
    assert found.text(1).split() == " ".join(STORY).split()


NOTICE = (
    "You need to enable JavaScript to run this app, as its pages are made in your own browser here."
)
DESCRIPTION = (
    "How the ferry came to be late on Monday, told by those who waited &amp; saw it come in."
)
TOLD = DESCRIPTION.replace("&amp;", "&")


@pytest.mark.parametrize(
    "meta", ["name=description", "property='og:description'", 'content="" name=Description']
)
def test_a_description_joins_a_notice(meta: str) -> None:
    """Two pages with one notice in front differ by it."""
    head = (
        f'<meta {meta.removeprefix("content=").replace(chr(34) * 2, "")} content="{DESCRIPTION}">'
    )
    page = f"<title>Late</title>{head}<div id=root></div><p>{NOTICE}</p>"
    packed = extract_pages([page, "<p>Next."], fields=("text", "body", "headings"))
    assert [packed.text(k) for k in range(4)] == [f"{NOTICE}\n{TOLD}"] * 2 + ["", "Next."]


@pytest.mark.parametrize("notice", ["Wait a moment, please.", NOTICE, "请稍候，页面正在加载。" * 3])
@pytest.mark.parametrize(
    "sentence", [SENTENCE, "渡船又晚点了，码头上没有人知道为什么。", "Паром снова опоздал. "]
)
def test_a_description_is_no_longer_than_what_it_joins(notice: str, sentence: str) -> None:
    """A site may have one for all its pages, so it must not be most of the text."""
    page = f'<meta name=description content="{sentence * 20}"><p>{notice}</p>'
    shown, added = extract_pages([page]).text(0).split("\n")
    weights = [
        sum(3 if c >= "\u4e00" else 1 for c in text if c not in " ") for text in (notice, added)
    ]
    assert shown == notice
    assert (sentence * 20).startswith(added)
    assert 40 <= weights[1] <= max(weights[0], 80) * 1.1


@pytest.mark.parametrize(
    "page",
    [
        f"<div>{OWN * 3}</div>",
        f"<h1>The tram is late</h1>{OWN}",
        "<div id=root></div>",
    ],
)
def test_no_description_joins_another_page(page: str) -> None:
    """Neither one with a text or the title's heading, nor one that shows nothing."""
    head = f'<title>The tram is late</title><meta name=description content="{DESCRIPTION}">'
    assert TOLD not in extract_pages([head + page]).text(0)


# ---- the kernel equals its definition


@kernel
def _told_one(data: Any, size: Any, markup: Any, description: Any, references: Any) -> Any:
    page = np.int64(data.ctypes.data)
    table = np.int64(references.ctypes.data)
    states, states_size = told_of(page, np.int64(0), size, markup, description, table)
    text, text_size = state_text(states, states_size)
    letters, letters_size = letters_of_state(states, np.int64(0), states_size, table)
    return states[:states_size], text[:text_size], letters[:letters_size]


LONG = "The ferry was late, and nobody on the quay could say why it was so late on Monday. " * 2
BITS = [
    "<script>",
    "<script type=application/ld+json>",
    "</script>",
    "<i data-a='",
    f'<i a="{{&quot;{LONG}&quot;]">',
    f'<b data-b="{LONG}&amp;\\">',
    "//",
    "/*",
    "*/",
    "self.a.push(",
    "w['a'] =",
    "`",
    f"'{LONG}'",
    f"`{LONG}`",
    "\0",
    "}",
    "<template>",
    "</template>",
    "<meta name=description content='",
    "<meta property=og:description content=a",
    "<meta name=a ",
    "content=bb name=DESCRIPTION",
    "'",
    '"',
    ">",
    "{",
    "[",
    "(",
    '"a":',
    '"b" :',
    "=",
    "window.__A__",
    "a b",
    ":",
    f'"{LONG}"',
    f'"{LONG}\\"\\n{LONG}"',
    f'"{LONG}{{"',
    f'"{"渡船又晚点了" * 9}"',
    "\\",
    "<!--",
    "-->",
    f'"{{\\"a\\":\\"{LONG}\\"',
    "JSON",
    "<style>",
    "</style>",
    "</p a='<'>",
    "<p>",
    "<plaintext>",
    "<textarea>",
    "</textarea>",
    "<script type=text/markdown>",
    "<script type=module>",
    "<meta itemprop=a content='",
    f"<meta itemprop=a content='{LONG}'>",
    f"<a-b c='{LONG}'>",
    "<article>",
    "<%",
    "{{",
    "\n\n",
    "{&q;a&q;:",
    "&l;",
    "x",
    " ",
    "\n",
    "<title>",
    "</title>",
    '<i Data-B="',
    "\\\0",
    "don't",
    f'"[{LONG}"',
    f'"[\\"{LONG}\\"]"',
    "&amp;eacute;",
    "\\u00e9\\\\u003cb>",
    "\u00a0",
    "é&nbsp;&lt;a b>",
]


def test_what_is_told_equals_its_definition() -> None:
    """On random pages of few kinds of markup, some cut off."""
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)
    count = 0
    for _ in range(20 * EXAMPLES):
        bits = dice.sample(BITS, dice.randrange(4, len(BITS)))
        bits += dice.sample(["<script>{", "<script>a = [", "</script>", f'"{LONG}"'], 3)
        page = "".join(dice.choices(bits, k=dice.randrange(40))).encode()
        page = page[: dice.randrange(len(page) + 1) if dice.random() < 0.1 else None]
        count += _check_told(page, seed) > 0
    assert count * 50 >= EXAMPLES * 20, seed


def _check_told(page: bytes, seed: int = 0) -> int:
    """Compare what is told with its definition; return how long its text is."""
    noted, span = np.zeros((2, 2), np.int64)
    states, text, letters = _told_one(with_slack(page), len(page), noted, span, REFERENCES)
    markup, description = page[slice(*noted)], page[slice(*span)]
    assert (states.tobytes(), description, markup) == told(page), (seed, page)
    assert text.tobytes() == text_of_states(states.tobytes()), (seed, page)
    assert letters.tobytes() == letters_of(states.tobytes()), (seed, page)
    return len(text)


def test_a_template_whose_end_tag_is_cut_off_is_open() -> None:
    """What stands in it is no markup that the page has whole."""
    for end_tag in ("</template", "</template ", '</template a="b'):
        _check_told(f"<template><article><p>{LONG}<p>{LONG}</article>{end_tag}".encode())
