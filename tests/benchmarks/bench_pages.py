"""
The page kernel beside its peers: `make bench-pages`.

Speed: on the same reviewed pages of 55 KB on average, every contender in turn in one process, one core; then the whole
way from bytes to a fingerprint as it is and as it was before the kernel; then two threads. Quality: how near the text
is to what people marked, how steady the fingerprint is when a page's surroundings change, recall of labelled pairs,
languages. The pages are not in the repository (NEARDUP_CORPORA, or ../shared/corpora). Written to
tests/benchmarks/results: pages.json, .md.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from statistics import mean, median
from typing import Any

from tests.benchmarks.common import CORPORA, keep, options, reached, table
from tests.benchmarks.machine import machine
from tests.benchmarks.pages.contenders import (
    BATCH,
    BEFORE,
    FUSED,
    KERNEL,
    MAIN,
    TEXTS,
    Extract,
    fingerprints,
    fused,
    fused_before,
)
from tests.benchmarks.pages.surroundings import in_other_surroundings
from tests.core.pages.made_pages import Writer, f1, layout
from tests.core.pages.quality import (
    bodies_quality,
    labelled_pages,
    renamed_adverts,
    reviewed_pages,
    shares_within,
    strings_quality,
)
from worker.core.pages import extract_pages

PAGE_BYTES = (10_000, 200_000)
MEAN_BYTES = 56_000
SLOW_PAGES = 20  # what a slow contender reads in a round


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
            runs[name] = (lambda extract=extract, chosen=chosen: [extract(page) for page in chosen], len(chosen))  # type: ignore[misc]
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
    """How many times the pages of one thread two threads do in the same time, by the clock; the median rounds."""
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
    """For each change of surroundings, the share of pages within three bits of the page as it was."""
    bodies = reviewed_pages(folder, "benchmark")
    dice = random.Random(3)
    small = [page for page in reviewed_pages(folder, "strings") if 10_000 < len(page["html"]) < 200_000]
    pages = [page["html"] for page in dice.sample(bodies, count // 2) + dice.sample(small, count // 2)]
    sentences = [s.strip() + "." for page in bodies for s in page["body"].split(".") if 60 < len(s) < 220]
    lines = (folder / "snippets.jsonl").open(encoding="utf-8")
    snippets = (str(row.get("text") or row.get("html") or "") for row in map(json.loads, lines))
    promotions = [text for text in snippets if 30 < len(text) < 400]
    base = fingerprints(pages, extract)
    found = {}
    for name, changed in in_other_surroundings(pages, sentences, promotions):
        values = fingerprints([page for _, page in changed], extract)
        near = [(base[k] ^ value).bit_count() <= 3 for (k, _), value in zip(changed, values, strict=True)]
        found[name] = mean(near)
    return found


def pairs(folder: Path, extract: Extract) -> dict[str, float]:
    """Recall and false pairs of labelled pages at k = 3 and 6."""
    told = {}
    changes: dict[str, Extract] = {"adswap": str, "kafka": str, "adswap, classes renamed": renamed_adverts}
    for name, change in changes.items():
        pages, labels = labelled_pages(folder, name.partition(",")[0])
        values = fingerprints([change(page) for page in pages.values()], extract)
        found = dict(zip(pages, values, strict=True))
        for k in (3, 6):
            told[f"{name}, k = {k}"] = shares_within(found, labels[1], k)
            told[f"{name}, false at k = {k}"] = shares_within(found, labels[0], k)
    return told


def languages(extract: Extract) -> dict[str, float]:
    """F1 of made articles, for each language the least of five layouts."""
    codes = sorted(file.name[:2] for file in files("worker.core.stopwords").iterdir() if file.name.endswith(".txt"))
    found = {}
    for code in codes:
        pages = [(Writer(code, str(number)), number) for number in range(5)]
        shares = [f1("\n".join(page.text), extract(html)) for page, html in ((p, layout(p, n)) for p, n in pages)]
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
        ("same page in other surroundings, within 3 bits", mean(quality["stability"].values()), 0.96),
        ("adswap with classes renamed, k = 3", quality["pairs"]["adswap, classes renamed, k = 3"], 0.70),
        ("languages × layouts, the least F1", min(quality["languages"].values()), 0.97),
    )
    rows = [(name, f"{value:.3f}", str(least), reached(value >= least)) for name, value, least in found]
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
            add(f"{label}, {part.replace('f1', 'F1')}", (found[name][part] for found in quality.values()))
    for measure, label in (("pairs", ""), ("stability", "within 3 bits: ")):
        for key in quality[KERNEL][measure]:
            add(f"{label}{key}", (found[measure][key] for found in quality.values()))
    add("mean of the changes", (mean(found["stability"].values()) for found in quality.values()))
    add("languages, the least F1", (min(found["languages"].values()) for found in quality.values()))
    return lines + table(("", *quality), rows)


def main() -> None:
    chosen = options(__doc__, "fewer pages and rounds").parse_args()
    bodies, portals, strings = (reviewed_pages(CORPORA, name) for name in ("benchmark", "readability", "strings"))
    if not bodies:
        raise SystemExit(
            f"no reviewed pages at {CORPORA}: set NEARDUP_CORPORA to a folder that has pages/articles.jsonl.gz"
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
            "bodies": bodies_quality(bodies[some], extract)._asdict(),
            "portals": bodies_quality(portals[some], extract)._asdict(),
            "strings": strings_quality(strings[some], extract)._asdict(),
            "stability": stability(CORPORA, extract, 20 if chosen.quick else 200),
            "pairs": pairs(CORPORA, extract),
            "languages": languages(extract),
        }
    text = "\n".join(bars(kept) + tables(kept))
    print(f"\n{text}")
    if not (chosen.quick or chosen.no_save):
        keep("pages", kept, f"{kept['mean_bytes']:,} bytes per page on average.\n\n{text}")


if __name__ == "__main__":
    main()
