"""
The page kernel beside its peers: `make bench-pages`.

Speed: on the same reviewed pages of 55 KB on average, every contender in turn in one process, one
core; then the whole way from bytes to a fingerprint as it is and as it was before the kernel; then
two threads. Quality: how near the text is to what people marked, how steady the fingerprint is when
a page's surroundings change, recall of labelled pairs, languages. The way before is the worker's
until the page kernel came: resiliparse's main content, or all text where that is next to nothing.
Its guards against pages that are slow to parse and its processes are left out: it was slower than
here. The pages are not in the repository (NEARDUP_CORPORA, or ../shared/corpora). Written to
tests/benchmarks/results: pages.json, .md.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.common import CORPORA, corpus_rows, options, reached, table
from tests.benchmarks.kept import finish, machine
from tests.core.pages import made_pages
from worker.core import stopwords
from worker.core.charset import codec_of, well_formed
from worker.core.document import BodyKind, Document
from worker.core.extract import Content, content_of
from worker.core.fingerprint import Fingerprinter
from worker.core.pages import extract_pages

PAGE_BYTES = (10_000, 200_000)
MEAN_BYTES = 56_000
SLOW_PAGES = 20  # what a slow contender reads in a round


# ---- the ways from a page to its text, and from bytes to a fingerprint

KERNEL, FUSED = "page kernel", "page kernel, bytes to fingerprint"
BEFORE, MAIN = "the way before", "resiliparse, main content"
BATCH = 64  # pages a call, as the worker has them
CONTENT_TYPE = "text/html; charset=utf-8"
MAIN_SHORT, ALL_IS_MORE = 200, 10  # the rules of the way before
Extract = Callable[[str], str]

FINGERPRINTER = Fingerprinter()


def kernel(page: str) -> str:
    return extract_pages([page]).text(0)


def resiliparse_main(page: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415

    text: str = extract_plain_text(
        page, main_content=True, preserve_formatting=False, list_bullets=False, comments=False
    )
    return text.strip()


def before(page: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415

    main = resiliparse_main(page)
    if len(main) >= MAIN_SHORT:
        return main
    text: str = extract_plain_text(
        page, main_content=False, preserve_formatting=False, list_bullets=False
    )
    return main if main and len(text) < ALL_IS_MORE * len(main) else text


def selectolax_text(page: str) -> str:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415

    tree = LexborHTMLParser(page)
    tree.strip_tags(["script", "style", "noscript", "template"])
    return str(tree.text(separator="\n"))


def trafilatura_main(page: str) -> str:
    import trafilatura  # noqa: PLC0415

    return trafilatura.extract(page, include_comments=False) or ""


TEXTS: dict[str, Extract] = {
    KERNEL: kernel,
    BEFORE: before,
    MAIN: resiliparse_main,
    "selectolax, all text": selectolax_text,
    "trafilatura": trafilatura_main,
}


def fused(bodies: Sequence[bytes]) -> NDArray[np.uint64]:
    """Bytes to fingerprints, a batch at a time, as the worker does."""
    found = []
    for begin in range(0, len(bodies), BATCH):
        contents = []
        for body in bodies[begin : begin + BATCH]:
            content = content_of(
                Document("", "https://e.example/", 0, BodyKind.BYTES, body, CONTENT_TYPE)
            )
            assert isinstance(content, Content)
            contents.append(content)
        packed = extract_pages(
            [content.body for content in contents], [content.kind for content in contents]
        )
        found.append(FINGERPRINTER.packed(packed.texts).fingerprints)
    return np.concatenate(found)


def fused_before(bodies: Sequence[bytes]) -> NDArray[np.uint64]:
    """Bytes to fingerprints as before the page kernel: decoded, extracted, fingerprinted."""
    texts = []
    for body in bodies:
        codec, mark = codec_of(body, None, CONTENT_TYPE, is_html=True)
        texts.append(before(well_formed(body[mark:].decode(codec, "replace"))))
    return FINGERPRINTER.batch(texts).fingerprints


def fingerprints(pages: Sequence[str], extract: Extract) -> list[int]:
    return [
        int(value) for value in FINGERPRINTER.batch([extract(page) for page in pages]).fingerprints
    ]


# ---- the same page in fourteen other surroundings: what changes around an article while it stays the same

_BODY = re.compile(r"<body[^>]*>", re.IGNORECASE)
_CONSENT = (
    "<p>We use cookies and similar technologies to personalise content and ads, to provide social "
    "media features and "
    "to analyse our traffic. By continuing you agree to our <a href='/privacy'>privacy "
    "policy</a>.</p>"
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
        items = (
            f"<li><a href=/x/{self.dice.randrange(9_999)}>{self.title()}</a></li>"
            for _ in range(count)
        )
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
    "advertisement in the text, class ad": lambda s, page, _: _in_text(
        page, s.advert("ad ad-slot")
    ),
    "advertisement in the text, class c7": lambda s, page, _: _in_text(page, s.advert("c7")),
    "two around it, class advert": lambda s, page, _: _around(
        page, s.advert("advert"), s.advert("advert")
    ),
    "two around it, class c7": lambda s, page, _: _around(page, s.advert("c7"), s.advert("c7")),
    "12 links, class related": lambda s, page, _: _at_end(
        page, f"<div class='related'>{s.links(12)}</div>"
    ),
    "12 links, no class": lambda s, page, _: _at_end(page, f"<div>{s.links(12)}</div>"),
    "5 links in the text": lambda s, page, _: _in_text(page, f"<div>{s.links(5)}</div>"),
    "8 teasers, class related": lambda s, page, _: _at_end(
        page, f"<div class='related'>{s.teasers(8)}</div>"
    ),
    "8 teasers, no class": lambda s, page, _: _at_end(page, f"<section>{s.teasers(8)}</section>"),
    "cookie banner, class": lambda s, page, _: _at_start(
        page, f"<div class='cookie-banner'>{_CONSENT}</div>"
    ),
    "cookie banner, no class": lambda s, page, _: _at_start(
        page, f"<div class='x1'>{_CONSENT}</div>"
    ),
    "6 comments, class": lambda s, page, _: _at_end(
        page, f"<div id='comments'>{s.comments(6, 'comment')}</div>"
    ),
    "6 comments, no class": lambda s, page, _: _at_end(
        page, f"<div id='a1'>{s.comments(6, 'b1')}</div>"
    ),
    "another page's nav, footer, aside": lambda _, page, other: _others(page, other),
}


def in_other_surroundings(
    pages: Sequence[str], sentences: Sequence[str], promotions: Sequence[str], seed: int = 7
) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """
    Name of the change, and the pages that can be changed so: their number and the changed page.
    """
    scenery = _Scenery(sentences, promotions, seed)
    for name, change in SURROUNDINGS.items():
        changed = [
            change(scenery, page, pages[(k + 7) % len(pages)]) for k, page in enumerate(pages)
        ]
        yield name, [(k, page) for k, page in enumerate(changed) if page]


# ---- what is measured


def speed_pages(pages: Sequence[str], count: int) -> list[bytes]:
    """Pages of 10 to 200 KB, 56 KB on average."""
    bodies = sorted(page.encode("utf-8", "replace") for page in pages)
    bodies = [body for body in bodies if PAGE_BYTES[0] <= len(body) <= PAGE_BYTES[1]]
    random.Random(5).shuffle(bodies)
    small = [body for body in bodies if len(body) < MEAN_BYTES][: count * 3 // 4]
    chosen = small + [body for body in bodies if len(body) >= MEAN_BYTES][: count // 4]
    while mean(map(len, chosen)) > MEAN_BYTES:
        chosen.pop()
    return chosen


def in_batches(bodies: Sequence[bytes]) -> None:
    """The kernel's call of the worker."""
    for begin in range(0, len(bodies), BATCH):
        extract_pages(bodies[begin : begin + BATCH])


def _extract_all(extract: Extract, pages: Sequence[str]) -> list[str]:
    return [extract(page) for page in pages]


def speeds(bodies: Sequence[bytes], rounds: int) -> dict[str, dict[str, float]]:
    """Processor time a page in microseconds, the median round; contenders take turns."""
    pages = [body.decode() for body in bodies]
    few = pages[:SLOW_PAGES]
    runs: dict[str, tuple[Callable[[], object], int]] = {
        KERNEL: (lambda: in_batches(bodies), len(bodies)),
        FUSED: (lambda: fused(bodies), len(bodies)),
        f"{BEFORE}, bytes to fingerprint": (lambda: fused_before(bodies), len(bodies)),
    }
    for name, extract in TEXTS.items():
        if name not in {KERNEL, BEFORE}:
            chosen = few if name == "trafilatura" else pages
            runs[name] = partial(_extract_all, extract, chosen), len(chosen)
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, (run, count) in runs.items():
            begin = time.process_time()
            run()
            if number:  # the first round compiles and warms up
                taken[name].append((time.process_time() - begin) / count * 1e6)
    return {
        name: {"us": median(times), "us_min": min(times), "pages_s": 1e6 / median(times)}
        for name, times in taken.items()
    }


def two_threads(bodies: Sequence[bytes], rounds: int) -> dict[str, float]:
    """
    How many times the pages of one thread two threads do in the same time, by the clock; the median
    rounds.
    """
    ratios = {}
    run: Callable[[Sequence[bytes]], object]
    bodies = [*bodies] * 4  # longer than the scheduler's turns
    for name, run in {KERNEL: in_batches, FUSED: fused}.items():
        alone, both = [], []
        with ThreadPoolExecutor(2) as pool:
            for _ in range(rounds):
                begin = time.perf_counter()
                run(bodies)
                alone.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                list(pool.map(run, (bodies, bodies)))
                both.append(time.perf_counter() - begin)
        ratios[name] = 2 * median(alone) / median(both)
    return ratios


def stability(folder: Path, extract: Extract, count: int) -> dict[str, float]:
    """
    For each change of surroundings, the share of pages within three bits of the page as it was.
    """
    bodies = made_pages.reviewed_pages(folder, "benchmark")
    dice = random.Random(3)
    small = [
        page
        for page in made_pages.reviewed_pages(folder, "strings")
        if 10_000 < len(page["html"]) < 200_000
    ]
    pages = [
        page["html"] for page in dice.sample(bodies, count // 2) + dice.sample(small, count // 2)
    ]
    sentences = [
        s.strip() + "." for page in bodies for s in page["body"].split(".") if 60 < len(s) < 220
    ]
    rows = corpus_rows(folder, "snippets.jsonl")
    snippets = (str(row.get("text") or row.get("html") or "") for row in rows)
    promotions = [text for text in snippets if 30 < len(text) < 400]
    base = fingerprints(pages, extract)
    found = {}
    for name, changed in in_other_surroundings(pages, sentences, promotions):
        values = fingerprints([page for _, page in changed], extract)
        near = [
            (base[k] ^ value).bit_count() <= 3
            for (k, _), value in zip(changed, values, strict=True)
        ]
        found[name] = mean(near)
    return found


def pairs(folder: Path, extract: Extract) -> dict[str, float]:
    """Recall and false pairs of labelled pages at k = 3 and 6."""
    told = {}
    changes: dict[str, Extract] = {
        "adswap": str,
        "kafka": str,
        "adswap, classes renamed": made_pages.renamed_adverts,
    }
    for name, change in changes.items():
        pages, labels = made_pages.labelled_pages(folder, name.partition(",")[0])
        values = fingerprints([change(page) for page in pages.values()], extract)
        found = dict(zip(pages, values, strict=True))
        for k in (3, 6):
            told[f"{name}, k = {k}"] = made_pages.shares_within(found, labels[1], k)
            told[f"{name}, false at k = {k}"] = made_pages.shares_within(found, labels[0], k)
    return told


def languages(extract: Extract) -> dict[str, float]:
    """F1 of made articles, for each language the least of five layouts."""
    found = {}
    for code in stopwords.languages():
        pages = [(made_pages.Writer(code, str(number)), number) for number in range(5)]
        shares = [
            made_pages.f1("\n".join(page.text), extract(html))
            for page, html in ((p, made_pages.layout(p, n)) for p, n in pages)
        ]
        found[code] = min(shares)
    return found


SETS = {
    "bodies": "article-extraction-benchmark",
    "portals": "mozilla/readability",
    "strings": "strings of trafilatura's evaluation",
}


def bars(kept: Mapping[str, Any]) -> list[str]:
    speed, quality = kept["speed"], kept["quality"][KERNEL]
    before = f"{BEFORE}, bytes to fingerprint"
    found = (
        ("kernel, times resiliparse's main content", speed[MAIN]["us"] / speed[KERNEL]["us"], 8),
        ("bytes to fingerprint, times the way before", speed[before]["us"] / speed[FUSED]["us"], 5),
        ("two threads, times one: kernel", kept["threads"][KERNEL], 1.7),
        ("two threads, times one: bytes to fingerprint", kept["threads"][FUSED], 1.7),
        (f"{SETS['bodies']}, F1", quality["bodies"]["f1"], 0.960),
        (f"{SETS['portals']}, F1", quality["portals"]["f1"], 0.960),
        (f"{SETS['strings']}, F1", quality["strings"]["f1"], 0.930),
        (
            "same page in other surroundings, within 3 bits",
            mean(quality["stability"].values()),
            0.96,
        ),
        (
            "adswap with classes renamed, k = 3",
            quality["pairs"]["adswap, classes renamed, k = 3"],
            0.70,
        ),
        ("languages × layouts, the least F1", min(quality["languages"].values()), 0.97),
    )
    rows = [
        (name, f"{value:.3f}", str(least), reached(value >= least)) for name, value, least in found
    ]
    return table(("bar", "measured", "at least", ""), rows)


def tables(kept: Mapping[str, Any]) -> list[str]:
    """Speed, then quality, steadiness and pairs."""
    rows = []
    for name, one in kept["speed"].items():
        figures = one["us"], one["pages_s"], one["pages_s"] * kept["mean_bytes"] / 1e6
        rows.append([name, *(f"{figure:,.0f}" for figure in figures)])
    lines = table(("one core", "µs per page", "pages/s", "MB/s"), rows)
    quality = kept["quality"]
    rows = []

    def add(label: str, figures: Iterable[float]) -> None:
        rows.append([label, *(f"{figure:.3f}" for figure in figures)])

    for name, label in SETS.items():
        for part in ("f1", "precision", "recall"):
            add(
                f"{label}, {part.replace('f1', 'F1')}",
                (found[name][part] for found in quality.values()),
            )
    for measure, label in (("pairs", ""), ("stability", "within 3 bits: ")):
        for key in quality[KERNEL][measure]:
            add(f"{label}{key}", (found[measure][key] for found in quality.values()))
    add("mean of the changes", (mean(found["stability"].values()) for found in quality.values()))
    add("languages, the least F1", (min(found["languages"].values()) for found in quality.values()))
    return lines + table(("", *quality), rows)


def main() -> None:
    chosen = options(__doc__, "fewer pages and rounds").parse_args()
    bodies, portals, strings = (
        made_pages.reviewed_pages(CORPORA, name) for name in ("benchmark", "readability", "strings")
    )
    if not bodies:
        raise SystemExit(
            f"no reviewed pages at {CORPORA}: set NEARDUP_CORPORA to a folder that has "
            f"pages/articles.jsonl.gz"
        )
    where = machine()
    pages = speed_pages([page["html"] for page in bodies + strings], 40 if chosen.quick else 240)
    kept: dict[str, Any] = {
        "machine": where | {"pages": len(pages)},
        "mean_bytes": round(mean(map(len, pages))),
        "speed": speeds(pages, 2 if chosen.quick else 9),
        "threads": two_threads(pages, 3 if chosen.quick else 15),
        "quality": {},
    }
    some = slice(40 if chosen.quick else None)
    for name, extract in TEXTS.items():
        if name == MAIN:
            continue
        print(f"quality of {name}", flush=True)
        kept["quality"][name] = {
            "bodies": made_pages.bodies_quality(bodies[some], extract)._asdict(),
            "portals": made_pages.bodies_quality(portals[some], extract)._asdict(),
            "strings": made_pages.strings_quality(strings[some], extract)._asdict(),
            "stability": stability(CORPORA, extract, 20 if chosen.quick else 200),
            "pairs": pairs(CORPORA, extract),
            "languages": languages(extract),
        }
    size = f"{kept['mean_bytes']:,} bytes per page on average."
    finish(chosen, "pages", kept, [size, "", *bars(kept), *tables(kept)])


if __name__ == "__main__":
    main()
