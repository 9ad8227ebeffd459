"""
Common Crawl's extracted texts (WET) without the duplicates: python common_crawl.py kept.jsonl
CC-MAIN-….warc.wet.gz …

The file wet.paths.gz of a crawl, at https://data.commoncrawl.org, lists its WET files. A second run
also removes duplicates of documents of the first run, whose originals are in kept.jsonl.ndsnap.
"""

import itertools
import sys
from collections import Counter
from pathlib import Path

import neardup


def main(target: Path, *files: str) -> None:
    state = target.with_name(f"{target.name}.ndsnap")
    found = neardup.Deduplicator.load(state) if state.exists() else neardup.Deduplicator()
    crawl = neardup.CrawlFiles(
        files, lambda damaged: print(f"damaged: {damaged.place}: {damaged.reason}")
    )
    records, judged = itertools.tee(crawl)  # verdicts are some thousand documents late
    counts: Counter[str] = Counter()
    with target.open("ab") as kept:
        for record, verdict in zip(records, found.add_many(judged), strict=True):
            counts[verdict.outcome.value] += 1
            if verdict.stays:
                kept.write(record.value + b"\n")
    found.save(state)
    print(f"{counts}, {crawl.tally.damaged} damaged, {len(found):,} originals known")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
