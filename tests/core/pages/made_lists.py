"""
Made pages whose text stands in many like parts: list articles, slide shows, live blogs, recipes,
answers, manuals.

A layout is markup with slots. The markup copies habits of real sites (telling names that tell the
wrong thing, linked headings, buttons, advertisements after every third part); the words are a
Writer's.

    {h}, {l}           a heading of a few words, a longer one
    {n}                the number of the part
    {s}, {p}           a sentence, a paragraph without markup
    {1}, {2}, {3}      so many paragraphs in <p>
    {w}                telling words, other ones in each part
    {i}, {c}           a few words of an ingredient or a cell, a line of code
    {x}, {ad}, {links} not the page's text: some words, an advertisement, a list of links
"""

from __future__ import annotations

import re
from html import escape
from typing import NamedTuple

from tests.core.pages.made_pages import Writer

SLOT = re.compile(r"\{(\w+)\}")
PARTS = (8, 14)
PHRASES = {"h": (2, 6), "l": (5, 11), "i": (1, 5)}  # words of them
OTHER_TEXT = {"x": (1, 4), "ad": (5, 11)}
INSERT_EVERY = 3


class Layout(NamedTuple):
    """The markup before the parts, of each part, behind them, and of inserts after each third."""

    kind: str
    before: str
    part: str
    after: str = ""
    insert: str = ""


WORDS = ("entry", "story featured", "post card", "item box", "entry content", "blog note")
PHOTO = "<figure><img src=/p.jpg><figcaption>{x}</figcaption></figure>"
SLOT_AD = "<div class='ad-slot'><a href=/go>{ad}</a></div>"
BOX = "<div class=b7><a href=/b>{ad}</a></div>"
BUTTONS = "<div class=share><a href=/f>{x}</a> <a href=/t>{x}</a></div>"

# Those whose name ends in "held out" were never looked at one by one while rules were chosen.
LAYOUTS: dict[str, Layout] = {
    # ---- list articles
    "flat": Layout(
        "list", "<div>{2}", "<h2>{n}. {h}</h2>" + PHOTO + "{2}", "{1}</div>", SLOT_AD
    ),
    "ordered, held out": Layout(
        "list", "<div>{1}<ol>", "<li><h3>{h}</h3><img src=/p.jpg>{1}</li>", "</ol></div>"
    ),
    "listicle slides": Layout(
        "list",
        "<div class='listicle-intro'>{1}</div><div class='listicle-body'>",
        "<div class='listicle-slide'><div class='listicle-slide-hed'><span>{n}</span>"
        "<h2>{h}</h2></div>"
        "<div class='slide-image'><img src=/p.jpg><span class='image-credit'>{x}</span></div>"
        "<div class='listicle-slide-dek'>{2}</div></div>",
        "</div>",
        SLOT_AD,
    ),
    "linked headings": Layout(
        "list",
        "<div>{1}",
        "<div class=item><h3><a href=/w>{n}. {h}</a></h3><img src=/p.jpg><p>{p}</p>"
        "<a href=/w>{x}</a></div>",
        "</div>",
        BOX,
    ),
    "page builder": Layout(
        "list",
        "<section class='elementor-section'>{3}</section>",
        "<section class='elementor-section'><div class='elementor-column'>"
        "<div class='elementor-widget elementor-widget-heading'><h2>{h}</h2></div>"
        "<div class='elementor-widget elementor-widget-text-editor'>"
        "<div class='elementor-widget-container'>{2}</div></div></div></section>",
    ),
    "tiles, held out": Layout(
        "list",
        "<div>{1}</div><div class=tiles>",
        "<article class='tile card'><div class=tile-image><img src=/p.jpg></div>"
        "<h3 class=tile-title>"
        "<a href=/v>{n}. {h}</a></h3><div class=tile-body>{1}<p>{s}</p></div>"
        "<a class=button href=/v>{x}</a></article>",
        "</div>",
    ),
    "sections, held out": Layout(
        "list",
        "{2}",
        "<section id=item><h2>{l}</h2>" + PHOTO + "<div class=text>{2}</div></section>",
        "",
        SLOT_AD,
    ),
    "terms, held out": Layout("list", "{1}<dl>", "<dt>{h}</dt><dd>{p}</dd>", "</dl>"),
    "table, held out": Layout(
        "list",
        "{1}<table>",
        "<tr><td><img src=/p.jpg></td><td><b>{n}. {h}</b><br><br>{p}</td></tr>",
        "</table>{1}",
    ),
    "products": Layout(
        "list",
        "<div class=intro>{2}</div><div class=products>",
        "<div class='product-card'><h3>{h}</h3><img src=/p.jpg>{1}"
        "<ul class=pros><li>{i}</li><li>{i}</li></ul><a class='btn buy' href=/shop>{x}</a></div>",
        "</div>",
    ),
    "short descriptions": Layout(
        "list",
        "<div class=subbuzzes>{1}",
        "<div class='subbuzz subbuzz-image'><h3><span class=number>{n}.</span> {l}</h3>"
        "<figure><img src=/p.jpg>"
        "<span class='subbuzz-attribution'>{x} / <a href=/i>{x}</a></span></figure>"
        "<div class='subbuzz-description'><p>{s}</p></div></div>",
        "</div>",
        SLOT_AD,
    ),
    "bold lines, held out": Layout(
        "list",
        "{1}",
        "<p><strong>{n}. {h}</strong></p><p><a href=/p><img src=/p.jpg></a></p>{2}",
        "",
        BOX,
    ),
    "deep grid": Layout(
        "list",
        "<div class=lead>{1}</div><div class=grid>",
        "<div class=row><div class='col col-12'><div class='module card'><div class=card-body>"
        "<h4>{h}</h4><div><div>{1}</div></div></div></div></div></div>",
        "</div>",
        SLOT_AD,
    ),
    "places, held out": Layout(
        "list",
        "<div>{1}</div><ul class='places widget-list'>",
        "<li class='place widget'><h2>{n} {h}"
        "</h2>" + PHOTO + "{1}<p>{s} <a href=/map>{x}</a></p></li>",
        "</ul>",
    ),
    "bodies": Layout(
        "list",
        "<div>{2}</div><div>",
        "<div class=item><h2>{h}</h2><img src=/p.jpg><div class='bodytext'>{2}</div></div>",
        "</div>",
        SLOT_AD,
    ),
    "articles of many words": Layout(
        "list",
        "<div>{1}</div><div>",
        "<article class='{w}'><h2>{n}. {h}</h2>" + PHOTO + "{2}</article>",
        "</div>",
    ),
    "a first heading each, held out": Layout(
        "list",
        "<div>{1}</div>",
        "<article><h1>{h}</h1><img src=/p.jpg>{2}</article>",
    ),
    "titles that are no headings": Layout(
        "list",
        "<div>{3}</div><div>",
        "<div class=entry-item><div class=item-title>{n}. {h}</div><img src=/p.jpg><p>{p}"
        "</p></div>",
        "</div>",
        SLOT_AD,
    ),
    "two columns, held out": Layout(
        "list",
        "{1}",
        "<div class=row><div class=col><img src=/p.jpg></div><div class=col><h3>{n}. {h}</h3>{1}"
        "<p>{s}</p></div></div>",
        "",
        "<div class='row'><div class='banner'><a href=/go>{ad}</a></div></div>",
    ),
    "components, held out": Layout(
        "list",
        "<div class='text parbase section'>{2}</div>",
        "<div class='title parbase section'><h2>{n}. {h}</h2></div>"
        "<div class='image parbase section'>" + PHOTO
        + "</div><div class='text parbase section'>{2}</div>",
        "",
        "<div class='teaser parbase section'><h3><a href=/r>{ad}</a></h3></div>",
    ),
    "a table each": Layout(
        "list",
        "{1}",
        "<table class=listing><tr><td class=left><img src=/p.jpg></td><td class=right>"
        "<h3>{h}</h3>{1}</td></tr></table>",
        "",
        "<center><a href=/go>{ad}</a></center>",
    ),
    "linked sections, held out": Layout(
        "list",
        "<div class=intro>{1}</div>",
        "<section class='venue'><div class=venue-head><h2><a href=/v>{h}</a></h2>"
        "<span class=address>{i}</span></div>"
        + PHOTO + "<div class=venue-text>{1}</div><a class=cta href=/v>{x}</a></section>",
    ),
    "behind a lead that its words call the body": Layout(
        "list",
        "<div class='articlebody'>{3}</div><div class='list-items'>",
        "<div class=list-item><h2>{n}. {h}</h2>" + PHOTO + "<div class=text>{2}</div></div>",
        "</div>",
        SLOT_AD,
    ),
    "behind an article": Layout(
        "list",
        "<article class=intro>{3}</article><div class='list-items'>",
        "<div class=list-item><h2>{n}. {h}</h2>" + PHOTO + "<div class=text>{2}</div></div>",
        "</div>",
    ),
    "headers": Layout(
        "list",
        "<div>{1}</div>",
        "<section><header><h2>{h}</h2><p>{s}</p></header>" + PHOTO + "{1}</section>",
        "",
        SLOT_AD,
    ),
    "linked cards": Layout(
        "list",
        "<div class=intro>{2}</div><div class=cards>",
        "<div class=card><h3><a href=/v>{h}</a></h3><img src=/p.jpg>{1}<p>{s}</p></div>",
        "</div>",
    ),
    "a first heading each": Layout(
        "list", "<div>{1}</div><div>", "<article><h1>{h}</h1>" + PHOTO + "{2}</article>", "</div>"
    ),
    "asides": Layout("list", "<div>{2}</div>", "<aside class=item><h3>{h}</h3>{2}</aside>"),
    "promoted": Layout(
        "list", "<div>{2}</div>", "<div class='promo-item'><h3>{h}</h3><img src=/p.jpg>{2}</div>"
    ),
    "recommendations": Layout(
        "list",
        "<div>{2}</div><div class=list>",
        "<div class=recommendation><h3>{h}</h3>" + PHOTO + "{2}</div>",
        "</div>",
        SLOT_AD,
    ),
    "dishes of a menu": Layout(
        "list", "<div>{1}</div>", "<div class='menu-item'><h3>{h}</h3><p>{p}</p></div>"
    ),
    "lives, beside a heading each": Layout(
        "list",
        "<div>{2}</div><div class=team>",
        "<div class=person><img src=/p.jpg><h3>{h}</h3><div class=bio>{2}</div></div>",
        "</div>",
    ),
    "few and short": Layout(
        "list",
        "<div>{1}</div><div>",
        "<div class=teaser><h3>{h}</h3><p>{s} {s}</p></div>",
        "</div>",
    ),
    "headings in headers of their own": Layout(
        "list",
        "<div>{1}</div>",
        "<div class=part><div class=part-header><h3>{h}</h3></div><div class=part-text>{1}</div></div>",
    ),
    # ---- slide shows
    "slides behind the first": Layout(
        "slides",
        "<div>{1}</div><ul class=slides>",
        "<li class=slide aria-hidden=true><img src=/p.jpg><h3>{h}</h3><div>{1}</div></li>",
        "</ul>",
    ),
    "slide show": Layout(
        "slides",
        "<div class=intro>{1}</div><div class=slideshow-wrap>",
        "<div class='slideshow-slide'><h2>{h}"
        "</h2>" + PHOTO + "<div class='slideshow-slide-dek'>{1}</div></div>",
        "</div>",
        SLOT_AD,
    ),
    "gallery items, held out": Layout(
        "slides",
        "{1}<ul class=pictures>",
        "<li class='gallery-item'><img src=/p.jpg><div class=caption><h3>{h}</h3>{1}</div></li>",
        "</ul>",
    ),
    "figures": Layout(
        "slides",
        "<div>{1}</div><div>",
        "<figure class=slide><img src=/p.jpg><figcaption><h2>{n}/12 {h}</h2><p>{p}</p>"
        "</figcaption></figure>",
        "</div>",
    ),
    "carousel, held out": Layout(
        "slides",
        "<div>{2}</div><div class=slides>",
        "<div class='carousel-item'><div class='carousel-image'><img src=/p.jpg></div>"
        "<div class='carousel-caption'><h3>{h}</h3><p>{p}</p></div></div>",
        "</div>",
        SLOT_AD,
    ),
    "gallery captions": Layout(
        "slides",
        "<div class=content-header>{1}</div>",
        "<section class='gallery-slide'><div class='gallery-slide-image'><img src=/p.jpg></div>"
        "<div class='gallery-slide-caption'><h2>{h}</h2><div class='gallery-slide-caption-dek'>{2}"
        "<span class=credit>{x}</span></div></div></section>",
    ),
    # ---- live blogs
    "live posts": Layout(
        "live",
        "<div class=summary><ul><li>{s}</li><li>{s}</li></ul></div><div class='live-blog'>",
        "<article class='live-post'><time>{x}</time><h2>{h}</h2>{2}" + BUTTONS + "</article>",
        "</div>",
        SLOT_AD,
    ),
    "entries, held out": Layout(
        "live",
        "{1}<ul class='liveblog-entries'>",
        "<li class='liveblog-entry'><span class=timestamp>{x}</span>{2}" + BUTTONS + "</li>",
        "</ul>",
    ),
    "updates, held out": Layout(
        "live",
        "<div>{1}</div><div class=timeline>",
        "<div class=update><div class=meta>{x}</div><div class=body>{1}</div></div>",
        "</div>",
    ),
    # ---- recipes
    "recipe": Layout(
        "recipe",
        "{2}<div class='ingredients box'><h2>{h}</h2><ul><li>{i}</li><li>{i}</li><li>{i}"
        "</li><li>{i}</li></ul></div>"
        "<ol class=instructions>",
        "<li>{s}</li>",
        "</ol><div class=note><p>{s}</p></div>",
    ),
    "ticked ingredients": Layout(
        "recipe",
        "{2}<h3>{h}</h3><ul class=ingredient-list><li><label><input type=checkbox>{i}</label></li>"
        "<li><label><input type=checkbox>{i}</label></li><li><label>"
        "<input type=checkbox>{i}</label></li>"
        "<li><label><input type=checkbox>{i}</label></li><li><label>"
        "<input type=checkbox>{i}</label></li></ul>",
        "<div class=step><h3>{h}</h3><img src=/p.jpg><div class=step-text><p>{p}</p></div></div>",
    ),
    "recipe card, held out": Layout(
        "recipe",
        "{3}<div class=recipe-card><table><tr><td>{i}</td><td>{i}</td></tr><tr><td>{i}"
        "</td><td>{i}</td></tr>"
        "<tr><td>{i}</td><td>{i}</td></tr></table>",
        "<div class=recipe-step><div class=number>{n}</div><div class=direction>{p}</div></div>",
        "</div>",
        SLOT_AD,
    ),
    # ---- questions and answers
    "answers": Layout(
        "answers",
        "<div class=question>{2}<pre><code>{c}\n{c}\n{c}</code></pre></div><div id=answers>",
        "<div class=answer><div class=votes>{n}</div><div class=post-text>{2}<pre>"
        "<code>{c}\n{c}</code></pre></div>"
        "<div class=user-info><a href=/u>{x}</a></div></div>",
        "</div>",
    ),
    "details, held out": Layout(
        "answers", "{1}", "<details><summary>{l}</summary><div>{1}</div></details>"
    ),
    "accordion": Layout(
        "answers",
        "<div>{1}</div><div class=accordion>",
        "<div class='accordion-item'><button class=accordion-button>{l}</button>"
        "<div class='accordion-panel'>{1}</div></div>",
        "</div>",
    ),
    "buttons side by side": Layout(
        "answers",
        "<div>{1}</div><div class=faq>",
        "<button class=toggle aria-expanded=false>{l}</button><div class=panel>{1}</div>",
        "</div>",
    ),
    "buttons in headings": Layout(
        "answers",
        "<div>{1}</div><div class=faq>",
        "<div class=item><h2><button class='btn collapsed'>{l}</button></h2><div>{1}</div></div>",
        "</div>",
    ),
    "interview, held out": Layout(
        "answers", "{2}", "<p><b>{l}</b></p>{2}", "", "<blockquote class=pullquote>{x}</blockquote>"
    ),
    # ---- documentation with code
    "sections with code": Layout(
        "manual",
        "{1}",
        "<section><h2>{h}</h2>{1}<div class=highlight><pre>{c}\n{c}\n{c}</pre></div>"
        "<div class='admonition note'><p>{s}</p></div></section>",
    ),
    "methods, held out": Layout(
        "manual",
        "<div class=description>{1}</div>",
        "<div class=method><h4><code>{c}</code></h4><div class=description><p>{s}</p></div>"
        "<table class=params><tr><td><code>{i}</code></td><td>{s}</td></tr>"
        "<tr><td><code>{i}</code></td><td>{s}</td></tr></table></div>",
    ),
    "tabs": Layout(
        "manual",
        "{2}",
        "<h3>{h}</h3><p>{s}</p><div class=tabs><div class=tab-pane><pre><code>{c}\n{c}"
        "</code></pre></div>"
        "<div class=tab-pane><pre><code>{c}\n{c}</code></pre></div></div>",
    ),
    # ---- long reads with many inserted boxes
    "chunks": Layout(
        "long",
        "<div class='article-chunk'>{2}</div>",
        "<div class='article-chunk'>{2}</div>",
        "",
        "<div class='inline-promo'><h4><a href=/r>{ad}</a></h4><p>{x}</p></div>" + SLOT_AD,
    ),
    "boxes": Layout(
        "long",
        "<div>{2}",
        "{1}<div class=c5><img src=/p.jpg><a href=/r>{ad}</a></div>{2}"
        "<aside class=pullquote><p>{x}</p></aside>",
        "</div>",
        "<div class=newsletter><form><p>{ad}</p><input></form></div>",
    ),
    "rows, held out": Layout(
        "long",
        "<div class='row lead'><div class='col'>{2}</div></div>",
        "<div class=row><div class='col content-block'>{2}</div></div>",
        "",
        "<div class=row><div class='col related'>{links}</div></div>",
    ),
}  # fmt: skip


def fill(page: Writer, markup: str, number: int = 0) -> str:
    """The markup with its slots filled; what is the page's text is remembered by the writer."""

    def filled(slot: re.Match[str]) -> str:
        name = slot[1]
        if name.isdecimal():
            return page.paragraphs(int(name))
        if name in OTHER_TEXT:
            return escape(page.phrase(*OTHER_TEXT[name]))
        if name in PHRASES:
            return page.kept(page.phrase(*PHRASES[name]))
        match name:
            case "n":
                text = str(number)
            case "w":
                text = page.dice.choice(WORDS)
            case "links":
                text = page.links(6)
            case "s":
                text = page.kept(page.sentence())
            case "p":
                text = page.kept(page.paragraph(4))
            case "c":
                text = page.kept(page.phrase(2, 5)) + "();"
            case _:
                raise ValueError(f"no slot is called {name}: {markup}")
        return text

    return SLOT.sub(filled, markup)


def made(name: str, language: str, seed: int) -> tuple[str, str]:
    """A whole page of a layout, and the text that a person would call its own."""
    layout = LAYOUTS[name]
    page = Writer(language, f"{name} {seed}")
    parts = [fill(page, layout.before)]
    for number in range(1, page.dice.randint(*PARTS) + 1):
        parts.append(fill(page, layout.part, number))
        if number % INSERT_EVERY == 0:
            parts.append(fill(page, layout.insert))
    parts.append(fill(page, layout.after))
    body = f"<h1>x</h1>{''.join(parts)}"
    if seed % 2:
        body = f"<article>{body}</article>"
    return page.around(seed % 3, body), "\n".join(page.text)
