"""
Made pages of sites that show a box on each page: a consent box, an age gate, a newsletter, an offer.

A site is the markup around an article, as its framework writes it; a box is markup of a few
sentences. The words are a Writer's, so no word says what a box is for.

    {nav}, {title}, {text}  links of the site, the article's heading, its paragraphs
    {before}, {behind}      where a box stands next to the article, within the site's wrappers
"""

from __future__ import annotations

import random

from tests.core.pages.made_pages import Writer

SITES = {
    "main": "<header><nav>{nav}</nav></header>{before}<main><h1>{title}</h1>{text}</main>{behind}",
    "role": "<div>{nav}</div>{before}<div role=main><h2>{title}</h2>{text}</div>{behind}",
    "article": "<nav>{nav}</nav>{before}<article><h1>{title}</h1>{text}</article>{behind}",
    "article, h2": "<div>{nav}</div>{before}<article><h2>{title}</h2>{text}</article>{behind}",
    "div, h1": "<div>{nav}</div>{before}<div><h1>{title}</h1>{text}</div>{behind}",
    "nested, h1": "<div>{nav}</div>{before}<div class=c><div><div><h1>{title}</h1></div><div><div>"
    "{text}</div></div></div></div>{behind}",
    "div, h2": "<div>{nav}</div>{before}<div class=c><h2>{title}</h2>{text}</div>{behind}",
    "a line": "<div>{nav}</div>{before}<div class=c><div class=hl>{title}</div>{text}</div>{behind}",
    "content": "<div id=header>{nav}</div>{before}<div id=content><h3>{title}</h3>{text}</div>{behind}",
    "Vue": "<div id=app data-v-app><div class=top>{nav}</div>{before}<div class=view data-v-1><h1>"
    "{title}</h1>{text}</div>{behind}</div>",
    "Nuxt": "<div id=__nuxt><div id=__layout><div><div data-v-1>{nav}</div>{before}<div data-v-2><div>"
    "<h1>{title}</h1><div class=richtext>{text}</div></div></div>{behind}</div></div></div>",
    "Angular": "<app-root ng-version=17><app-top>{nav}</app-top><router-outlet></router-outlet>{before}"
    "<app-news><h1>{title}</h1><div>{text}</div></app-news>{behind}</app-root>",
    "Svelte": "<div style='display: contents'><div class=s-1x>{nav}</div>{before}<section class=s-2y>"
    "<h1>{title}</h1>{text}</section>{behind}</div>",
    "Astro": "<div>{nav}</div>{before}<astro-island uid=1><div><h1>{title}</h1>{text}</div>"
    "</astro-island>{behind}",
    "Turbo": "<div>{nav}</div>{before}<turbo-frame id=top><h1>{title}</h1>{text}</turbo-frame>{behind}",
    "htmx": "<div hx-boost=true><div>{nav}</div>{before}<div hx-target=this><h1>{title}</h1>{text}"
    "</div>{behind}</div>",
    "AMP": "<amp-sidebar>{nav}</amp-sidebar>{before}<article><h1>{title}</h1><amp-img src=a></amp-img>"
    "{text}</article>{behind}",
    "slots": "<site-nav>{nav}</site-nav>{before}<news-page><h1 slot=title>{title}</h1><div slot=body>"
    "{text}</div></news-page>{behind}",
    "shadow roots": "<site-nav>{nav}</site-nav>{before}<news-page><template shadowrootmode=open><h1>"
    "{title}</h1>{text}</template></news-page>{behind}",
}  # fmt: skip

# {h}, {b}, {s}: some words of a heading, of a button, a sentence; {p}: all sentences in paragraphs;
# {t}: the same in one run; {l}: in a list.
BOXES = {
    "nothing": "<div><div><h2>{h}</h2>{p}<button>{b}</button><button>{b}</button></div></div>",
    "lines": "<div><div><b>{h}</b><br>{t}<br><a href=/p>{b}</a> <a href=#>{b}</a></div></div>",
    "made classes": "<div class='css-1k2 _a9'><div class=css-77><h3>{h}</h3><div>{t}</div></div></div>",
    "its own h1": "<div><h1>{h}</h1>{p}<button>{b}</button></div>",
    "role": "<div role=dialog aria-modal=true><h1>{h}</h1>{p}<button>{b}</button></div>",
    "dialog": "<dialog open><h1>{h}</h1>{p}</dialog>",
    "alert": "<section role=alertdialog><h2>{h}</h2>{p}</section>",
    "custom element": "<site-wall><h2 slot=title>{h}</h2>{p}</site-wall>",
    "shadow root": "<cmp-root><template shadowrootmode=open><div><h2>{h}</h2>{p}</div></template></cmp-root>",
    "aside": "<aside><h2>{h}</h2>{p}</aside>",
    "section": "<section><h2>{h}</h2>{p}</section>",
    "form": "<form action=/age><h2>{h}</h2>{p}<label><input type=date></label><button>{b}</button></form>",
    "gate": "<div class=gate><h2>{h}</h2>{p}<a href=/yes>{b}</a><a href=/no>{b}</a></div>",
    "letter": "<div class=nl-layer><h3>{h}</h3>{p}<form><input type=email><button>{b}</button></form></div>",
    "Didomi": "<div id=didomi-host><div class=didomi-popup-container>{p}</div></div>",
    "Sourcepoint": "<div id=sp_message_container_1>{p}</div>",
    "purposes": "<div><h2>{h}</h2><p>{s}</p><ul>{l}</ul><button>{b}</button></div>",
    "table": "<table><tr><td><b>{h}</b></td></tr><tr><td>{t}</td></tr></table>",
}  # fmt: skip
PLACES = ("first", "before", "behind", "last")


def box(name: str, writer: Writer, count: int) -> str:
    """A box of so many sentences."""
    sentences = [writer.sentence() for _ in range(count)]
    return BOXES[name].format(
        h=writer.phrase(2, 4),
        b=writer.phrase(1, 2),
        s=writer.sentence(),
        p="".join(f"<p>{' '.join(sentences[k : k + 3])}</p>" for k in range(0, count, 3)),
        t=" ".join(sentences),
        l="".join(f"<li>{sentence}</li>" for sentence in sentences),
    )


def pages(site: str, name: str, place: str, language: str, seed: int) -> tuple[str, str, str]:
    """
    Two pages of a site with one box, and the first without it.

    Within wrappers, a box is shorter than the article. Before and behind them it is up to five times
    as long.
    """
    dice = random.Random(f"{site} {name} {place} {seed}")
    own = dice.randint(3, 9)
    inside = place in ("before", "behind")
    count = dice.randint(1, own - 2) if inside else dice.randint(2, 5 * own)
    writer = Writer(language, f"site {seed}")
    nav = writer.links(8)
    around = box(name, writer, count)
    made = []
    for number in (1, 2):
        article = Writer(language, f"{seed} {number}")
        title = article.phrase(6, 9)
        text = "".join(f"<p>{article.sentence()} {article.sentence()}</p>" for _ in range(own))
        for boxed in (around, ""):
            body = SITES[site].format(
                nav=nav,
                title=title,
                text=text,
                before=boxed if place == "before" else "",
                behind=boxed if place == "behind" else "",
            )
            first = boxed if place == "first" else ""
            last = boxed if place == "last" else ""
            made.append(f"<title>{title} | Harbour</title><body>{first}{body}{last}</body>")
    return made[0], made[2], made[1]
