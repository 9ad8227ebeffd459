"""
What a peer says of pairs of texts: `python -m tests.benchmarks.accuracy.trial NAME FOLDER`.

FOLDER holds texts.json and pairs.npy, a row per pair; found.npy is written there, a row a method, and one line of JSON
comes out with the methods' names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from tests.benchmarks.common import Figures, answer
from tests.benchmarks.contenders import OF_PAIRS


def trial(name: str, folder: Path) -> Figures:
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    found = OF_PAIRS[name](texts, np.load(folder / "pairs.npy"))
    np.save(folder / "found.npy", np.stack(list(found.values())))
    return {"methods": list(found)}


if __name__ == "__main__":
    answer(sys.argv[1], lambda: trial(sys.argv[1], Path(sys.argv[2])))
