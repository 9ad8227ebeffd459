"""
A site: its language, charset and layout, and how it wraps an article in menus, teasers, advertisements and a footer.

The layouts are those of the web: sectioning elements; div with ids; a table of three columns; a weblog. Copies of an
article on two sites share the article and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from worker.devkit.sample.article import Article
from worker.devkit.sample.dice import Dice
from worker.devkit.sample.language import Lexicon, load_language

_LAYOUTS = {
    "sections": """<header><nav>{menu}</nav></header>
<main><article><h1>{title}</h1>
{body}</article></main>
<aside>{side}<ul>{teasers}</ul></aside>
<footer>{footer}</footer>""",
    "divs": """<div id="header"><div id="menu">{menu}</div></div>
<div id="content"><h1>{title}</h1>
{body}</div>
<div id="sidebar">{side}<ul>{teasers}</ul></div>
<div id="footer">{footer}</div>""",
    "table": """<table width="100%"><tr><td class="navigation">{menu}</td>
<td class="content"><h1>{title}</h1>
{body}</td>
<td class="sidebar">{side}<ul>{teasers}</ul></td></tr></table>
<div class="footer">{footer}</div>""",
    "weblog": """<div class="nav">{menu}</div>
<div class="post"><h2 class="post-title">{title}</h2>
<div class="entry-content">{body}</div></div>
<div class="widget">{side}</div>
<div class="related"><ul>{teasers}</ul></div>
<div class="copyright">{footer}</div>""",
}
_LEGACY_CHARSET = 0.25  # of the sites whose language has one


@dataclass(frozen=True)
class Site:
    """One host. `charset_in_header`: where its pages say their charset, in the HTTP header or in a meta element."""

    host: str
    language: str
    layout: str
    charset: str
    charset_in_header: bool
    is_chunked: bool
    lexicon: Lexicon
    menu: str
    footer: str


def found_site(name: str, language_code: str, layout: int, dice: Dice) -> Site:
    """Found a site."""
    language = load_language(language_code)
    lexicon = Lexicon(language, dice)
    legacy = language.charsets[1:]
    menu = "".join(_item(f"/{at}", word) for at, word in enumerate(dice.several(language.words["N"], 8)))
    return Site(
        host=f"www.{name}.example",
        language=language_code,
        layout=tuple(_LAYOUTS)[layout % len(_LAYOUTS)],
        charset=dice.pick(legacy) if legacy and dice.chance(_LEGACY_CHARSET) else "utf-8",
        charset_in_header=dice.chance(0.5),
        is_chunked=dice.chance(0.2),
        lexicon=lexicon,
        menu=f"<ul>{menu}</ul>",
        footer=f"© {lexicon.name()} | {' | '.join(dice.several(language.words['N'], 4))}",
    )


def render(site: Site, article: Article, dice: Dice) -> str:
    """Return the page: the article as it is, everything around it as the moment has it."""
    meta = "" if site.charset_in_header else f'<meta charset="{site.charset}">'
    head = (
        f'<!DOCTYPE html>\n<html lang="{site.language}"><head>{meta}<title>{article.title} – {site.host}</title>'
        f'<style>body{{margin:0}}</style><script>var session="{dice.number(10**8, 10**9)}";</script></head>\n'
    )
    texts = [site.lexicon.language.joiner.join(sentences) for sentences in article.paragraphs]
    body = [f"{text}\n" if text.startswith("<table>") else f"<p>{text}</p>\n" for text in texts]
    if len(body) > 2:
        body.insert(dice.number(1, len(body) - 1), f'<div class="advert">{_advert(site, dice)}</div>\n')
    adverts = [f'<a href="/go?{dice.number(1, 9999)}">{_advert(site, dice)}</a>' for _ in range(3)]
    page = _LAYOUTS[site.layout].format(
        title=article.title,
        body="".join(body),
        menu=site.menu,
        side="".join(f'<div class="ad">{advert}</div>' for advert in adverts),
        teasers="".join(_item(f"/{dice.number(1, 99_999)}", site.lexicon.title()) for _ in range(4)),
        footer=site.footer,
    )
    return f"{head}<body>{page}</body></html>\n"


def _item(target: str, text: str) -> str:
    return f'<li><a href="{target}">{text}</a></li>'


def _advert(site: Site, dice: Dice) -> str:
    language = site.lexicon.language
    phrases = f"{language.joiner or ' '}".join(dice.several(language.adverts, 2))
    return f"{site.lexicon.name()} {phrases} {dice.number(3, 999)} €"
