"""
The page kernel beside its peers: `make bench-pages`.

Speed: on the same reviewed pages of 55 KB on average, every contender in turn in one process, one core; then the whole
way from bytes to a fingerprint as it is and as it was before the kernel; then two threads. Quality: how near the text
is to what people marked, how steady the fingerprint is when a page's surroundings change, recall of labelled pairs,
languages. The pages are not in the repository (NEARDUP_CORPORA, or ../shared/corpora). Written to
tests/benchmarks/results: pages.json, .md, .png.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from statistics import mean, median
from typing import Any

from tests.benchmarks.machine import RESULTS, machine
from tests.benchmarks.pages.contenders import BATCH, FUSED, KERNEL, TEXTS, Extract, fingerprints, fused, fused_before
from tests.benchmarks.pages.report import markdown, plot
from tests.benchmarks.pages.surroundings import in_other_surroundings
from tests.conftest import REPOSITORY
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
        "the way before, bytes to fingerprint": (lambda: fused_before(bodies), len(bodies)),
    }
    for name, extract in TEXTS.items():
        if name not in {KERNEL, "the way before"}:
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


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer pages and rounds; nothing is kept")
    parser.add_argument("--no-save", action="store_true", help="leave the kept results as they are")
    options = parser.parse_args()
    folder = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    bodies, portals, strings = (reviewed_pages(folder, name) for name in ("benchmark", "readability", "strings"))
    if not bodies:
        raise SystemExit(
            f"no reviewed pages at {folder}: set NEARDUP_CORPORA to a folder that has pages/articles.jsonl.gz"
        )
    kept: dict[str, Any] = {"machine": machine()}
    chosen = speed_pages([page["html"] for page in bodies + strings], 40 if options.quick else 240)
    kept["pages"], kept["mean_bytes"] = len(chosen), round(mean(map(len, chosen)))
    kept["speed"] = speeds(chosen, 2 if options.quick else 9)
    kept["threads"] = two_threads(chosen, 3 if options.quick else 15)
    kept["quality"] = {}
    for name, extract in TEXTS.items():
        if name == "resiliparse, main content":
            continue
        print(f"quality of {name}", flush=True)
        kept["quality"][name] = {
            "bodies": bodies_quality(bodies[:40] if options.quick else bodies, extract)._asdict(),
            "portals": bodies_quality(portals[:40] if options.quick else portals, extract)._asdict(),
            "strings": strings_quality(strings[:40] if options.quick else strings, extract)._asdict(),
            "stability": stability(folder, extract, 20 if options.quick else 200),
            "pairs": pairs(folder, extract),
            "languages": languages(extract),
        }
    text = markdown(kept)
    print(f"\n{text}")
    if options.quick or options.no_save:
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "pages.json").write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    (RESULTS / "pages.md").write_text(text)
    plot(kept, RESULTS / "pages.png")


if __name__ == "__main__":
    main()
