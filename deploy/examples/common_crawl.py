"""
Common Crawl's extracted texts (WET) without the duplicates: python common_crawl.py kept.jsonl
CC-MAIN-….warc.wet.gz …

The file wet.paths.gz of a crawl, at https://data.commoncrawl.org, lists its WET files. A second run
also removes duplicates of documents of the first run, whose originals are in kept.jsonl.ndsnap.
"""

import itertools
import shutil
import sys
from collections import Counter
from pathlib import Path

import neardup


def main(target: Path, *files: str) -> None:
    state = target.with_name(f"{target.name}.ndsnap")
    # A run that is broken off while documents are judged adds nothing.
    part = target.with_name(f"{target.name}.part")
    found = neardup.Deduplicator.load(state) if state.exists() else neardup.Deduplicator()
    crawl = neardup.CrawlFiles(
        files, lambda damaged: print(f"damaged: {damaged.place}: {damaged.reason}")
    )
    records, judged = itertools.tee(crawl)  # verdicts are some thousand documents late
    counts: Counter[str] = Counter()
    with part.open("wb") as kept:
        for record, verdict in zip(records, found.add_many(judged, errors="return"), strict=True):
            if isinstance(verdict, Exception):  # such as a URL that is too long
                counts["not judged"] += 1
                print(f"not judged: {record.place}: {verdict}")
                continue
            counts[verdict.outcome.value] += 1
            if verdict.stays:
                kept.write(record.value + b"\n")
    with part.open("rb") as made, target.open("ab") as kept:
        shutil.copyfileobj(made, kept)
    found.save(state)
    part.unlink()
    print(f"{counts}, {crawl.tally.damaged} damaged, {len(found):,} originals known")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), *sys.argv[2:])
