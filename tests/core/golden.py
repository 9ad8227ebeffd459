"""
The golden vectors: texts of our own in many scripts, and edge cases, with the fingerprints that
they keep for ever.

`data/golden.jsonl` holds the parameter hash of each set of parameters, then a line per text. Where
a change of the definition is meant, SCHEME_VERSION goes up, and `python -m tests.core.golden`
writes the file anew from the definition in plain Python. What is not printable ASCII or well-formed
there is escaped, so that no editor can normalise it.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.core.definition import Fingerprint, Kind, Parameters, define

_FILE = Path(__file__).parent / "data" / "golden.jsonl"

SAMPLES: dict[str, dict[str, list[str]]] = json.loads(
    (_FILE.parent / "prose.json").read_text(encoding="utf-8")
)
"""Two or three sentences of prose, and a menu with an advertisement, in each language."""

PARAMETERS: dict[str, Parameters] = {
    "defaults": Parameters(),
    "32 bits": Parameters(bits=32),
    "128 bits": Parameters(bits=128),
    "widths 1, 3, tf, union": Parameters(
        shingle_widths=(1, 3), term_frequency="tf", anchors="union"
    ),
    "anchored only, one, masked": Parameters(
        unanchored_weight=0, term_frequency="one", mask_numbers=True, mask_identifiers=True
    ),
    "character 3-grams": Parameters(token_unit="character", shingle_widths=(3,)),
    "own words": Parameters(
        stopwords=frozenset({"bridge", "the", "橋", "그"}), anchored_weight=255
    ),
}


@dataclass(frozen=True)
class Golden:
    """A text and what it must become under each set of parameters."""

    name: str
    written: str  # the text, or how it is made: "repeat:a word:1000", "count:word{}:1000"
    expected: dict[str, Fingerprint]

    @property
    def text(self) -> str:
        """
        The text.

        >>> Golden("", "repeat:of:2", {}).text, Golden("", "count:w{}:3", {}).text
        ('of of ', 'w0 w1 w2')
        """
        rule, _, rest = self.written.partition(":")
        if rule == "repeat":
            return f"{rest.rpartition(':')[0]} " * int(rest.rpartition(":")[2])
        if rule == "count":
            return " ".join(
                rest.rpartition(":")[0].format(number)
                for number in range(int(rest.rpartition(":")[2]))
            )
        return self.written


def goldens() -> list[Golden]:
    return [
        Golden(
            line["name"],
            line["text"],
            {name: _from_json(values) for name, values in line["expected"].items()},
        )
        for line in _lines()[1:]
    ]


def golden_hashes() -> dict[str, str]:
    hashes: dict[str, str] = _lines()[0]["parameters"]
    return hashes


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]


def _from_json(values: list[Any]) -> Fingerprint:
    value, features, digest, kind, doubts, sketch = values
    return Fingerprint(
        int(value, 16), features, int(digest, 16), Kind[kind], int(doubts, 16), int(sketch, 16)
    )


def _write() -> None:
    """Return every text the fingerprints that the definition makes today."""
    lines: list[dict[str, Any]] = [
        {"parameters": {name: one.hash for name, one in PARAMETERS.items()}}
    ]
    for line in _lines()[1:]:
        golden, expected = Golden(line["name"], line["text"], {}), {}
        for name, parameters in PARAMETERS.items():
            made = define(golden.text, parameters)
            value, doubts = (
                f"{word:0{parameters.bits // 4}x}" for word in (made.value, made.doubts)
            )
            expected[name] = [
                value,
                made.features,
                f"{made.digest:016x}",
                made.kind.name,
                doubts,
                f"{made.sketch:0128x}",
            ]
        lines.append({"name": golden.name, "text": golden.written, "expected": expected})
    texts = (json.dumps(line, ensure_ascii=not _survives(line.get("text", ""))) for line in lines)
    _FILE.write_text("\n".join(texts) + "\n", encoding="utf-8")


def _survives(text: str) -> bool:
    return text.isprintable() and unicodedata.normalize("NFC", text) == text


if __name__ == "__main__":
    _write()
