"""
Made pages with the text that a person would call theirs: many languages, many surroundings, a kind
for each cause.

The words are the project's own function words of a language and invented ones of its letters, so
that no corpus is needed. Titles (h1) are headings, not counted here.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

_MARKS = {
    **dict.fromkeys(("zh",), ("，", "。")),
    **dict.fromkeys(("ja",), ("、", "。")),
    **dict.fromkeys(("hi", "bn"), (",", "।")),
    **dict.fromkeys(("ar", "fa"), ("،", ".")),
    **dict.fromkeys(("th", "lo"), (" ", " ")),  # no marks at all
    "ur": ("،", "۔"),
    "km": (" ", "។"),
    "my": ("၊", "။"),
    "hy": (",", "։"),
}
_WITHOUT_SPACES = {"zh", "ja", "th", "lo", "km", "my"}
_TOKEN = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u4e00-\u9fff]|\w+")


class Writer:
    """Writes a page's markup and keeps what its text is."""

    def __init__(self, language: str, seed: str) -> None:
        self.dice = random.Random(f"{seed}-{language}")
        lines = (files("worker.core.stopwords") / f"{language}.txt").read_text("utf-8").splitlines()
        self._function_words = [
            word for line in lines if not line.startswith("#") for word in line.split()
        ]
        letters = sorted(
            {letter for word in self._function_words for letter in word if letter.isalpha()}
        )
        shortest, longest = (1, 2) if language in {"zh", "ja"} else (3, 9)
        self._content_words = [
            "".join(self.dice.choices(letters, k=self.dice.randint(shortest, longest)))
            for _ in range(300)
        ]
        self._comma, self._stop = _MARKS.get(language, (",", "."))
        self._joiner = "" if language in _WITHOUT_SPACES else " "
        self.text: list[str] = []

    def phrase(self, shortest: int, longest: int) -> str:
        words = (
            self._function_words if self.dice.random() < 0.45 else self._content_words
            for _ in range(longest)
        )
        count = self.dice.randint(shortest, longest)
        return self._joiner.join(
            self.dice.choice(choice) for choice, _ in zip(words, range(count), strict=False)
        )

    def sentence(self) -> str:
        first, second = self.phrase(7, 14), self.phrase(3, 7)
        return f"{first}{self._comma}{self._joiner}{second}{self._stop}"

    def paragraph(self, most: int = 5) -> str:
        return (self._joiner or self._stop).join(
            self.sentence() for _ in range(self.dice.randint(2, most))
        )

    def kept(self, text: str) -> str:
        """Markup of a text that is the page's."""
        self.text.append(text)
        return escape(text)

    def paragraphs(self, count: int, *, element: str = "p", most: int = 5) -> str:
        return "".join(
            f"<{element}>{self.kept(self.paragraph(most))}</{element}>\n" for _ in range(count)
        )

    def linked(self, sentences: int) -> str:
        """A paragraph of which nearly half is links."""
        marked = []
        for _ in range(sentences):
            parts = [self.phrase(4, 8), self.phrase(3, 6), self.phrase(3, 6) + self._stop]
            self.text.append(" ".join(parts))
            marked.append(
                f"{escape(parts[0])} <a href=/w>{escape(parts[1])}</a> {escape(parts[2])}"
            )
        return f"<p>{' '.join(marked)}</p>"

    def many(self, count: int, pattern: str, shortest: int = 1, longest: int = 3) -> str:
        """The pattern so many times, each with phrases of the page's text for its {}."""
        holes = pattern.count("{}")
        return "".join(
            pattern.format(*(self.kept(self.phrase(shortest, longest)) for _ in range(holes)))
            for _ in range(count)
        )

    def links(self, count: int) -> str:
        return (
            "<ul>"
            + "".join(
                f"<li><a href=/{k}>{escape(self.phrase(1, 3))}</a></li>" for k in range(count)
            )
            + "</ul>"
        )

    def teasers(self, count: int) -> str:
        one = "<div><h3><a href=/t>{}</a></h3><p>{}</p></div>"
        return "".join(
            one.format(escape(self.phrase(4, 8)), escape(self.sentence()[:120]))
            for _ in range(count)
        )

    def comments(self, count: int) -> str:
        one = "<div><b>{}</b><p>{}</p></div>"
        return "".join(
            one.format(escape(self.phrase(1, 2)), escape(self.paragraph(3))) for _ in range(count)
        )

    def around(self, surroundings: int, body: str) -> str:
        """The page: sections, telling names, or no telling name at all."""
        foot = (
            f"<p>© 2026 {escape(self.phrase(1, 3))}. "
            f"{escape(self.phrase(4, 8))}.</p>{self.links(2)}"
        )
        if surroundings == 0:
            inside = f"<header><nav>{self.links(9)}</nav></header><main>{body}</main><aside>{self.teasers(2)}</aside>"
            inside += f"<footer>{foot}</footer>"
        elif surroundings == 1:
            side = f"<div id=sidebar>{self.teasers(3)}{self.links(5)}</div>"
            inside = (
                f"<div id=header>{self.links(9)}</div><div id=wrap><div "
                f"id=content>{body}</div>{side}</div>"
            )
            inside += f"<div id=footer>{foot}</div>"
        else:
            inside = f"<div class=a>{self.links(11)}</div><div class=b><div class=c>{body}</div>"
            inside += f"<div class=d>{self.links(7)}</div></div><div class=e>{foot}</div>"
        return f"<!DOCTYPE html><title>{escape(self.phrase(4, 8))}</title><body>{inside}</body>"


# ---- five layouts of an article


def layout(page: Writer, number: int) -> str:
    """A whole page in one of five layouts, two of them without any telling name."""
    count = page.dice.randint(4, 12)
    foot = f"<div><p>© 2026 {escape(page.phrase(1, 3))}</p>{page.links(2)}</div>"
    if number == 0:
        return f"<div>{page.links(12)}</div><div>{page.paragraphs(count)}</div><div>{page.links(10)}</div>{foot}"
    if number == 1:
        text = "<br><br>".join(page.kept(page.paragraph()) for _ in range(count))
        return f"<table><tr><td>{page.links(14)}</td><td>{text}</td></tr></table>{foot}"
    if number == 2:
        inside = f"<article>{page.paragraphs(count)}</article><aside>{page.teasers(4)}</aside>"
        return f"<nav>{page.links(12)}</nav><main>{inside}</main><footer>{foot}</footer>"
    if number == 3:
        text = "".join(
            f"<div class=c3><div>{page.kept(page.paragraph())}</div></div>" for _ in range(count)
        )
        return (
            f"<div class=c1>{page.links(8)}</div><div class=c2>{text}</div><div "
            f"class=c4>{page.teasers(4)}</div>{foot}"
        )
    text = (
        f"<div class='post-body'>{page.paragraphs(count)}</div><div "
        f"class=comments>{page.comments(4)}</div>"
    )
    inside = f"<div class=menu>{page.links(9)}</div><div id=content>{text}</div>"
    return f"{inside}<div class=sidebar>{page.teasers(4)}</div>{foot}"


# ---- kinds of pages, each for a cause


def encyclopedia(page: Writer) -> str:
    """Paragraphs full of links, lists, a table, references; a box of links below."""
    out = ""
    for _ in range(3):
        out += page.many(1, "<h2>{}</h2>") + page.linked(4) + page.linked(3)
        out += "<ul>" + page.many(5, "<li><a href=/x>{}</a> {}</li>", 2, 6) + "</ul>"
    out += "<table>" + page.many(
        6, "<tr class='row left even'><td><a href=/y>{}</a></td><td>{}</td><td>{}</td></tr>"
    )
    out += "</table>" + page.many(1, "<h2>{}</h2>") + "<ol class=references>"
    return (
        out
        + page.many(8, "<li>{} <a href=/z>{}</a> {}</li>", 2, 5)
        + f"</ol><div class=navbox>{page.links(14)}</div>"
    )


def documentation(page: Writer) -> str:
    """Sections of short prose, code, terms, tables, and notes that a class calls a note."""
    out = page.paragraphs(1)
    for _ in range(4):
        out += f"<section>{page.many(1, '<h2>{}</h2>')}{page.paragraphs(page.dice.randint(1, 3))}"
        out += f"<pre><code>{page.many(6, '{}();' + chr(10), 2, 4)}</code></pre>"
        out += f"<dl>{page.many(4, '<dt><code>{}</code></dt><dd>{}</dd>', 2, 8)}</dl>"
        out += (
            f"<table>{page.many(4, '<tr><td><code>{}</code></td><td>{}</td></tr>', 2, 7)}</table>"
        )
        out += f"<div class=note><p>{page.kept(page.sentence())}</p></div></section>"
    return out


def steps(page: Writer) -> str:
    """A list of what is needed in one box, the steps in a list in another."""
    out = page.paragraphs(1) + "<div class=c8>" + page.many(1, "<h2>{}</h2>") + "<ul>"
    out += (
        page.many(8, "<li>{}</li>")
        + "</ul></div><div class=c9>"
        + page.many(1, "<h2>{}</h2>")
        + "<ol>"
    )
    return out + page.paragraphs(7, element="li", most=2) + "</ol></div>"


def thread(page: Writer) -> str:
    """A question and its answers, each in a box with its author."""
    user = "<div class=u><a href=/u>{}</a></div>"
    posts = (
        f"<div class=t>{user.format(escape(page.phrase(1, 2)))}<div "
        f"class=m>{page.paragraphs(2)}</div></div>"
        for _ in range(7)
    )
    return f"<div>{''.join(posts)}</div>"


def thread_of_articles(page: Writer) -> str:
    """The same with each post an article."""
    posts = (f"<article class=message>{page.paragraphs(3)}</article>" for _ in range(5))
    return f"<div>{''.join(posts)}</div>"


def product(page: Writer) -> str:
    """A description, a list of features, a table; other products in cards."""
    out = f"<div><div>{page.paragraphs(1)}<ul>{page.many(5, '<li>{}</li>', 3, 7)}</ul></div>"
    out += f"<table>{page.many(8, '<tr><th>{}</th><td>{}</td></tr>')}</table></div>"
    cards = (
        f"<div><a href=/c>{escape(page.phrase(4, 8))}</a> <span>9 €</span></div>" for _ in range(6)
    )
    return out + f"<div>{''.join(cards)}</div>"


def several(page: Writer) -> str:
    """A page that goes on with other pages: the first is the text."""
    first = f"<article><h1>x</h1>{page.paragraphs(5)}</article>"
    text = list(page.text)
    others = "".join(f"<article><h1>x</h1>{page.paragraphs(6)}</article>" for _ in range(3))
    page.text = text
    return f"<div>{first}{others}</div>"


def line_breaks(page: Writer) -> str:
    """Line breaks in place of paragraphs."""
    return "".join(
        "<br>\n".join(page.kept(page.sentence()) for _ in range(5)) + "<br><br>" for _ in range(6)
    )


def one_sentence(page: Writer) -> str:
    """A heading and one sentence."""
    return f"<h1>x</h1><p>{page.kept(page.sentence() + page.sentence())}</p>"


def lead(page: Writer) -> str:
    """The lead in a box of its own, far from the text."""
    sentence = page.kept(page.sentence() + page.sentence())
    return (
        "<div><h1>x</h1><div "
        f"class=s><p>{sentence}</p></div></div><div><div>{page.paragraphs(7)}</div></div>"
    )


def quoted_posts(page: Writer) -> str:
    """Posts from elsewhere between the paragraphs."""
    post = "<div class='social embed'><blockquote><p>{} {} <a href=/t>{}</a></p></blockquote></div>"
    text = "".join(page.paragraphs(1) + page.many(1, post, 4, 9) for _ in range(5))
    return f"<article>{text}{page.paragraphs(1)}</article>"


def marked_comments(page: Writer) -> str:
    """A short article and a long thread of comments that their class tells."""
    return f"<article>{page.paragraphs(1)}</article><div id=comments>{page.comments(10)}</div>"


def unmarked_comments(page: Writer) -> str:
    """Comments without a telling class."""
    return f"<div><h1>x</h1>{page.paragraphs(5)}</div><div id=x1>{page.comments(6)}</div>"


def unmarked_teasers(page: Writer) -> str:
    """A short article and more teasers than it has text."""
    return f"<div><h1>x</h1>{page.paragraphs(4)}</div><div class=q2>{page.teasers(24)}</div>"


def unmarked_adverts(page: Writer) -> str:
    """Advertisements between the paragraphs, without a telling class."""
    advert = "<div class=c1>{}</div>"
    return "".join(page.paragraphs(1) + advert.format(escape(page.phrase(3, 7))) for _ in range(8))


def results(page: Writer) -> str:
    """A table and nothing else."""
    return f"<table>{page.many(25, '<tr class=odd>' + '<td class=column>{}</td>' * 5 + '</tr>')}</table>"


def glossary(page: Writer) -> str:
    """Terms that are links, and what they mean, without a full stop."""
    return f"<dl>{page.many(16, '<dt><a href=#x>{}</a></dt><dd>{}</dd>', 4, 9)}</dl>"


def questions(page: Writer) -> str:
    """Questions on buttons that open their answers."""
    question = "<div class=item>{}{}</div>"
    head = "<h3><button>{}</button></h3>"
    return "".join(
        question.format(page.many(1, head, 4, 8), page.paragraphs(1, most=2)) for _ in range(9)
    )


def boxed_paragraphs(page: Writer) -> str:
    """
    An article of which every paragraph stands in boxes of its own, one section longer than the
    others.
    """
    boxes = "".join(f"<div><div>{page.paragraphs(1, most=3)}</div></div>" for _ in range(6))
    return f"<article>{boxes}<div><div>{page.paragraphs(9)}</div></div></article>"


def manual(page: Writer) -> str:
    """
    Sections named by their headings, which link to themselves; notes and comments in highlighted
    code.
    """
    code = "<pre><span class='hl comment'># {}</span>\n<span class=nav>{}</span> {}</pre>"
    out = page.paragraphs(2)
    for _ in range(4):
        out += (
            "<section "
            f"id=sharing-with-a-developer>{page.many(1, '<h2 id=related><a href=#s>{}</a></h2>', 4, 8)}"
        )
        out += page.paragraphs(1, most=2) + page.many(2, code, 4, 9) + "</section>"
    return out


def table_of_works(page: Writer) -> str:
    """
    A table of which each row has some prose, its references; a table of facts that its class calls
    a margin.
    """
    out = (
        "<table "
        f"class=infobox>{page.many(9, '<tr><th>{}</th><td>{}</td></tr>')}</table>{page.paragraphs(2)}"
    )
    row = "<tr><th><a href=/w>{}</a></th><td>{}</td></tr>"
    rows = (
        row.format(page.kept(page.phrase(2, 4)), page.kept(page.paragraph())) for _ in range(12)
    )
    references = page.many(9, "<li><a href=/r>{}</a>, {}</li>", 4, 9)
    return f"{out}<table><tbody>{''.join(rows)}</tbody></table><h2>x</h2><div><ol>{references}</ol></div>"


def features(page: Writer) -> str:
    """Sections of short texts with a heading, each with a link to more."""

    def section(count: int) -> str:
        out = "<section><ul>"
        for _ in range(count):
            out += (
                page.many(1, "<li><h2>{}</h2>")
                + page.paragraphs(1)
                + page.many(1, "<a href=/m>{}</a>", 4, 4)
            )
        return out + "</ul></section>"

    return f"<main>{section(3)}{section(9)}</main>"


def chapters(page: Writer) -> str:
    """A chapter of many pages, and shorter ones around it."""
    return "".join(f"<section>{page.paragraphs(count)}</section>" for count in (10, 40, 10))


def long_teasers(page: Writer) -> str:
    """A short article and a long list of others, each with a linked heading and a paragraph."""
    one = "<li><div><h3><a href=/t>{}</a></h3><p>{}</p></div></li>"
    many = (
        one.format(escape(page.phrase(4, 8)), escape(page.sentence() + page.sentence()))
        for _ in range(20)
    )
    return f"<div><h1>x</h1>{page.paragraphs(5)}</div><div class=q2><ul>{''.join(many)}</ul></div>"


KINDS: tuple[Callable[[Writer], str], ...] = (
    encyclopedia, documentation, steps, thread, thread_of_articles, product, several, line_breaks,
    one_sentence, lead, quoted_posts, marked_comments, unmarked_comments, unmarked_teasers,
    unmarked_adverts, results, glossary, questions, boxed_paragraphs, manual, table_of_works,
    features, chapters, long_teasers,
)  # fmt: skip


def f1(expected: str, found: str) -> float:
    """Of 4-grams of tokens with their counts."""
    true, predicted = _grams(_words(expected)), _grams(_words(found))
    return 2 * (true & predicted).total() / max(1, true.total() + predicted.total())


def overlap(expected: str, found: str) -> Quality:
    """
    Precision and recall of the same; numbers, which lists count their parts with, are left out.
    """
    true, predicted = (
        _grams([word for word in _words(text) if not word.isdecimal()])
        for text in (expected, found)
    )
    common = (true & predicted).total()
    precision = common / max(1, predicted.total())
    recall = common / max(1, true.total())
    return Quality(2 * common / max(1, true.total() + predicted.total()), precision, recall)


def _words(text: str) -> list[str]:
    """Its tokens; "x" stands for what is not counted."""
    return [word for word in _TOKEN.findall(text) if word != "x"]


# ---- how good a text is that was made of a page whose main content people have reviewed


class Quality(NamedTuple):
    f1: float
    precision: float
    recall: float


def _quality(precision: float, recall: float) -> Quality:
    return Quality(2 * precision * recall / (precision + recall), precision, recall)


def reviewed_pages(corpora: Path, name: str) -> list[dict[str, Any]]:
    """
    The pages of a set: "benchmark", "readability" (`body`) or "strings" (`with`, `without`); none
    where absent.
    """
    path = (
        corpora
        / "pages"
        / ("readability.jsonl.gz" if name == "readability" else "articles.jsonl.gz")
    )
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [page for page in map(json.loads, lines) if page["set"] == name]


def labelled_pages(
    corpora: Path, name: str
) -> tuple[dict[str, str], dict[int, list[tuple[str, str]]]]:
    """The HTML of a set's documents, and its pairs: 1 near-duplicates, 0 others."""
    documents = map(json.loads, (corpora / "docs.jsonl").open(encoding="utf-8"))
    pages = {
        row["doc_id"]: row["html"] for row in documents if row["set"] == name and "html" in row
    }
    pairs: dict[int, list[tuple[str, str]]] = {0: [], 1: []}
    for line in (corpora / "pairs.tsv").open(encoding="utf-8"):
        one, other, label, *_ = line.split("\t")
        if label in "01" and one in pages and other in pages:
            pairs[int(label)].append((one, other))
    return pages, pairs


def renamed_adverts(html: str) -> str:
    """A page of the set "adswap" whose advertisements have a class that tells nothing."""
    return re.sub(r'<div class="(ad|promo)"( id="[^"]*")?', '<div class="c1"', html)


def shares_within(fingerprints: dict[str, int], pairs: list[tuple[str, str]], k: int) -> float:
    """Which share of pairs is within k bits."""
    return mean((fingerprints[one] ^ fingerprints[other]).bit_count() <= k for one, other in pairs)


def bodies_quality(pages: Iterable[dict[str, Any]], extract: Callable[[str], str]) -> Quality:
    """
    Mean precision and recall of word 4-grams over pages, as article-extraction-benchmark counts
    them.
    """
    precisions, recalls = [], []
    for page in pages:
        true, found = (
            _grams(re.findall(r"\w+", text)) for text in (page["body"], extract(page["html"]))
        )
        common = (true & found).total()
        if found:
            precisions.append(common / found.total())
        if true:
            recalls.append(common / true.total())
    return _quality(mean(precisions), mean(recalls))


def strings_quality(pages: Iterable[dict[str, Any]], extract: Callable[[str], str]) -> Quality:
    """
    Of all strings that must and must not be in the texts, as trafilatura's evaluation counts them.
    """
    right = wrong = missing = 0
    for page in pages:
        text = " ".join(extract(page["html"]).split())
        wanted = sum(" ".join(string.split()) in text for string in page["with"])
        right, missing = right + wanted, missing + len(page["with"]) - wanted
        wrong += sum(" ".join(string.split()) in text for string in page["without"])
    return _quality(right / (right + wrong), right / (right + missing))


def _grams(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[k : k + 4]) for k in range(max(len(words) - 3, 1 if words else 0)))
