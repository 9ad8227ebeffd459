"""
All pairs within a distance of a million and of ten million fingerprints: `make bench-pairs`.

Seconds and the most memory that the whole process ever held, on one core: random fingerprints; a crawl, where half are
near an earlier one or equal to it; fingerprints of texts. Written to tests/benchmarks/results: pairs.json, pairs.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.bench_index import KEPT
from tests.benchmarks.index.texts import kept_fingerprints
from tests.benchmarks.machine import RESULTS, machine
from tests.conftest import REPOSITORY

MILLION = 1_000_000
DISTANCE = 3
TRIALS = (
    (MILLION, "random"),
    (MILLION, "crawl"),
    (MILLION, "texts"),
    (10 * MILLION, "random"),
    (10 * MILLION, "crawl"),
)
SECONDS_MAX = {MILLION: 0.5, 10 * MILLION: 4.0}
BYTES_MAX = 0.8e9
SIMHASH_CPP_S = {MILLION: 1.3, 10 * MILLION: 25.4}  # seomoz/simhash-cpp, in C++, on random ones; of an earlier day


def run(size: int, data: str) -> dict[str, Any]:
    """One trial, in a process of its own."""
    source = str(kept_fingerprints(size, KEPT)) if data == "texts" else data
    command = [sys.executable, "-m", "tests.benchmarks.index.pairs_trial", str(size), str(DISTANCE), source]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {"size": size, "data": data} | found


def markdown(found: Sequence[dict[str, Any]]) -> str:
    """The table."""
    lines = [
        f"| k = {DISTANCE} | pairs | seconds | wanted | memory | wanted | clusters | seconds | simhash-cpp, pairs |",
        "|---" * 9 + "|",
    ]
    for one in found:
        size, seconds, held = one["size"], one["seconds"], one["bytes_max"]
        bar, peer = SECONDS_MAX.get(size), SIMHASH_CPP_S.get(size)
        cells = (
            f"{size:,} {one['data']}",
            f"{one['pairs']:,}",
            f"{seconds:.2f}",
            "" if bar is None else f"≤ {bar} {_told(seconds <= bar)}",
            f"{held / 1e9:.2f} GB",
            f"≤ {BYTES_MAX / 1e9} {_told(held <= BYTES_MAX)}",
            f"{one['clusters']:,}",
            f"{one['clusters_seconds']:.2f}",
            f"{peer} s" if peer is not None and one["data"] == "random" else "",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _told(reached: bool) -> str:
    return "reached" if reached else "**missed**"


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a million, random; nothing is kept")
    parser.add_argument("--no-save", action="store_true", help="leave the kept results as they are")
    options = parser.parse_args()
    where = machine()
    found = []
    for size, data in TRIALS[:1] if options.quick else TRIALS:
        found.append(run(size, data))
        print(found[-1], flush=True)
    text = markdown(found)
    print(f"\n{text}")
    if not (options.quick or options.no_save):
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "pairs.json").write_text(json.dumps({"machine": where, "trials": found}, indent=1) + "\n")
        told = ", ".join(f"{name} {value}" for name, value in where.items())
        (RESULTS / "pairs.md").write_text(f"Measured with `make bench-pairs`: {told}.\n\n{text}")


if __name__ == "__main__":
    main()
