"""
One contender, in a process and on a core of its own: its speed on each set of texts, and what it finds again.

    python -m tests.benchmarks.fingerprint.trial CONTENDER TEXTS.json SECONDS        prints one line of JSON

A speed is that of the best pass over the texts, in processor time of the whole process; passes go on for SECONDS.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.benchmarks.fingerprint.contenders import PACKAGES, Contender, make


def passes(contender: Contender, texts: list[str], seconds: float) -> float:
    """The processor time of the best pass: of one, for a contender that takes longer than the seconds for it."""
    held = contender.hold(texts)
    best, begun = float("inf"), time.perf_counter()
    while best == float("inf") or time.perf_counter() - begun < seconds:
        before = time.process_time()
        contender.run(held)
        best = min(best, time.process_time() - before)
    return best


def main() -> None:
    """Measure and tell."""
    name, path, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    package = PACKAGES.get(name, "neardup")
    try:
        found: dict[str, Any] = {"version": metadata.version(package)}
    except metadata.PackageNotFoundError:
        print(json.dumps({"left_out": f"absent: {package} cannot be installed here"}))
        return
    contender = make(name)
    texts = json.loads(path.read_text(encoding="utf-8"))
    found["speed"] = {}
    for kind, chosen in texts["speed"].items():
        spent = passes(contender, chosen, seconds)
        size = sum(len(text.encode()) for text in chosen)
        found["speed"][kind] = {"documents_s": len(chosen) / spent, "mb_s": size / spent / 1e6}
    found["shares"] = contender.shares(next(iter(texts["speed"].values())))
    found["nearness"] = {
        kind: contender.nearness(chosen["originals"], chosen["changes"])._asdict()
        for kind, chosen in texts["quality"].items()
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
