"""What the fingerprint benchmark changes and counts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.bench_fingerprint import bars, tables
from tests.benchmarks.common import ask
from tests.benchmarks.contenders import TextContender
from tests.benchmarks.fingerprint_texts import CHANGES, quality_texts


class Numbers(TextContender):
    """Its texts are numbers."""

    def run(self, held: Any) -> Any:
        return np.array([int(text) for text in held], np.uint64)


def test_copies_and_false_pairs_are_counted() -> None:
    """Three bits are near, four are not."""
    found = Numbers().nearness(["0", "255", "7"], {"none": ["0", "255", "7"], "some": ["15", "255", "0"]})
    assert found["recall"] == {"none": 1.0, "some": 2 / 3}
    assert (found["false_pairs"], found["pairs"]) == (1, 3)
    shares = Numbers().shares(["0", "255", "7"])
    assert shares is not None
    assert shares[:9] == pytest.approx([2 / 3] * 3 + [1 / 3] * 5 + [0])


def test_a_copy_differs_in_as_many_words_as_it_says(tmp_path: Path) -> None:
    """One word, 1 and 5 in a hundred, or a frame around the text; characters where words are not apart."""
    (chosen,) = quality_texts(tmp_path, 16).values()
    assert len(chosen["originals"]) == 16
    for number, text in enumerate(chosen["originals"]):
        unit = text.split(" ") if text.count(" ") > len(text) / 20 else list(text)
        copies = {change: chosen["changes"][change][number] for change in CHANGES}
        for change, share in (("1 word", 0.0), ("1 % of words", 0.01), ("5 % of words", 0.05)):
            changed = copies[change].split(" ") if len(unit) < len(text) else list(copies[change])
            differing = sum(one != other for one, other in zip(unit, changed, strict=True))
            assert 0.8 * share * len(unit) - 1 <= differing <= max(1, share * len(unit) + 1)
        assert text in copies["menu and footer"]


@pytest.mark.skipif(find_spec("gaoya") is not None, reason="gaoya is installed here")
def test_an_absent_peer_is_told(tmp_path: Path) -> None:
    """It is never left out silently: it has its line in the tables."""
    missing = ask("trial", "texts", "gaoya", tmp_path, 0.1)
    assert missing == {"left_out": "absent: gaoya cannot be installed here"}
    absent = ask("trial", "texts", "gaoya", tmp_path, 0.1, python=str(tmp_path / "python"))
    assert absent == {"left_out": "absent: no environment of peers"}
    near = {"recall": dict.fromkeys(CHANGES, 1.0), "false_pairs": 0, "pairs": 1}
    speed = {"texts": {"documents_s": 1.0, "mb_s": 1.0}}
    ours = {"version": "1", "speed": speed, "shares": [0.5] * 64, "nearness": {"generated": near}}
    assert "| gaoya |  | absent: gaoya cannot be installed here |  |  |" in tables({"neardup": ours, "gaoya": missing})
    told = bars({"neardup": ours, "gaoya": missing}, 5.0, 2.0)
    assert "| bits set in 40 to 60 % of the unrelated texts | 64 | 64 | reached |" in told
    assert "| later start, s | 2.00 | ≤ 1 | **missed** |" in told
