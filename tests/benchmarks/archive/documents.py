"""
English documents with a known truth, as JSON Lines: what neardup and its peer read.

    relation     share  what                                                    copy of
    article       .48   a text for the first time
    syndicated    .14   an earlier text, at another URL                         the article
    edited        .12   one with a small edit, at another URL                   the article
    recrawl       .08   the same URL later, with a small edit                   the article
    family        .05   one text for all of them, each with edits of its own    the first of them
    redelivered   .02   an earlier document once more, byte for byte            what that is a copy of
    short         .03   a few words; equal ones are copies                      the first with these words
    template      .08   a page of six kinds: other facts in the same sentences

Documents of one group are copies of its first one; of different groups they are not, however alike:
a page of a template is another page to a person. Of 200,000 documents the family has 10,000.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from schemas.fields import format_timestamp
from worker.devkit.sample import crawl

SHARES = {
    "article": 48, "syndicated": 14, "edited": 12, "recrawl": 8, "family": 5, "redelivered": 2,
    "short": 3, "template": 8,
}  # fmt: skip
RECENT_MAX = 5_000  # what copies are taken from
_DRAWN = [relation for relation, share in SHARES.items() for _ in range(share)]


class Made(NamedTuple):
    """A document, and what is true of it."""

    doc_id: str
    url: str
    text: str
    group: str
    relation: str

    def line(self, number: int) -> bytes:
        """Return it as it is read."""
        fetched_at = format_timestamp((crawl.FIRST_FETCH_S + number) * 1_000)
        fields = {
            "doc_id": self.doc_id,
            "url": self.url,
            "fetched_at": fetched_at,
            "text": self.text,
        }
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def made_documents(count: int, seed: int = 5) -> Iterator[Made]:
    """Yield documents; equal seeds give equal ones. Cost: about 0.25 ms per document."""
    dice, english = crawl.Dice(seed), crawl.load_language("en")
    recent: list[tuple[Made, crawl.Article]] = []
    common = crawl.write_article("family", english, dice)
    articles = 0
    for number in range(count):
        relation = dice.pick(_DRAWN) if recent else "article"
        name, url = f"d{number}", f"https://site{number % 997}.example/{number}"
        if relation == "article":
            article = crawl.write_article(name, english, dice)
        elif relation == "template":
            article = crawl.fill_template(
                crawl.TEMPLATES[number % len(crawl.TEMPLATES)], name, "en", dice
            )
        elif relation == "family":
            article = crawl.edited(common, dice)
        elif relation == "short":
            text = f"{dice.pick(english.shorts)} {dice.number(1, 400)}"
            yield Made(name, url, text, text, relation)
            continue
        else:
            earlier, article = dice.pick(recent)
            if relation == "redelivered":
                yield earlier._replace(relation=relation)
                continue
            url = earlier.url if relation == "recrawl" else url
            article = article if relation == "syndicated" else crawl.edited(article, dice)
        made = Made(name, url, _text(article), article.group, relation)
        yield made
        if relation == "article":
            recent[articles % RECENT_MAX : articles % RECENT_MAX + 1] = [(made, article)]
            articles += 1


def _text(article: crawl.Article) -> str:
    return "\n".join([article.title, *(" ".join(sentences) for sentences in article.paragraphs)])


def write_documents(folder: Path, count: int, files: int, seed: int = 5) -> None:
    """
    Write documents to as many files, in their order, and beside the folder what is true of them:
    truth.jsonl.
    """
    folder.mkdir(parents=True)
    made = enumerate(made_documents(count, seed))
    with (folder.parent / "truth.jsonl").open("wb") as truth:
        for file in range(files):
            with (folder / f"{file:03}.jsonl").open("wb") as lines:
                for _ in range(count * file // files, count * (file + 1) // files):
                    number, one = next(made)
                    lines.write(one.line(number))
                    truth.write(
                        orjson.dumps(
                            [one.doc_id, one.group, one.relation], option=orjson.OPT_APPEND_NEWLINE
                        )
                    )
