"""
One contender, in a process and on a core of its own: its speed on each set of texts, and what it finds again.

    python -m tests.benchmarks.fingerprint.trial CONTENDER TEXTS.json SECONDS        prints one line of JSON

A speed is that of the best pass over the texts, in processor time of the whole process; passes go on for SECONDS.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.benchmarks.common import Figures, answer, on_one_core
from tests.benchmarks.contenders import OF_TEXTS, TextContender


def passes(contender: TextContender, texts: list[str], seconds: float) -> float:
    """The processor time of the best pass: of one, for a contender that takes longer than the seconds for it."""
    held = contender.hold(texts)
    best, begun = float("inf"), time.perf_counter()
    while best == float("inf") or time.perf_counter() - begun < seconds:
        before = time.process_time()
        contender.run(held)
        best = min(best, time.process_time() - before)
    return best


def trial(name: str, path: Path, seconds: float) -> Figures:
    contender = OF_TEXTS[name]()
    texts = json.loads(path.read_text(encoding="utf-8"))
    speed = {}
    for kind, chosen in texts["speed"].items():
        spent = passes(contender, chosen, seconds)
        size = sum(len(text.encode()) for text in chosen)
        speed[kind] = {"documents_s": len(chosen) / spent, "mb_s": size / spent / 1e6}
    nearness = {
        kind: contender.nearness(chosen["originals"], chosen["changes"])._asdict()
        for kind, chosen in texts["quality"].items()
    }
    return {"speed": speed, "shares": contender.shares(next(iter(texts["speed"].values()))), "nearness": nearness}


if __name__ == "__main__":
    on_one_core()
    answer(sys.argv[1], lambda: trial(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))
