"""
The fingerprint kernel beside its peers: `make bench-fingerprint`.

On the same texts, each contender in a process of its own on one core: documents and megabytes a
second, the share of changed copies within three bits of their originals, unrelated pairs within
three bits, live bits. Then ours alone: the time from the start of a process to its first
fingerprint. Texts are generated; where the labelled corpus is present (NEARDUP_CORPORA, or
../shared/corpora), its texts too. Peers run in an environment of their own; one that cannot be
installed there is told as absent. Written to tests/benchmarks/results: fingerprint.json, .md.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks import common
from tests.benchmarks.common import CORPORA, Figures, ask, ask_contender, corpus_rows, table
from tests.benchmarks.contenders import ESTIMATE_MIN, OF_TEXTS
from tests.benchmarks.kept import DEPLOYED, WIDER, finish, machine, this_build
from tests.benchmarks.stages import pieces
from tests.core.golden import SAMPLES
from worker.core.definition import detect
from worker.core.tokens import nfc
from worker.devkit.sample.crawl import LANGUAGES, Dice, load_language, write_article

TRIAL_S_MAX = 300.0
OURS = "neardup"
ENGLISH = "generated, English, 5 KB"
MIXED = "generated, 8 languages, 4.5 KB"
CORPUS = "corpus, 30 languages, 4.5 KB"
CLICKHOUSE = "ClickHouse wordShingleSimHash"
# Times as fast as a peer, by set of texts.
BARS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    DEPLOYED: {
        ENGLISH: {CLICKHOUSE: 2.0, "gaoya": 4.0},
        MIXED: {CLICKHOUSE: 1.2},
        CORPUS: {CLICKHOUSE: 1.3},
    },
    WIDER: {
        ENGLISH: {CLICKHOUSE: 2.2, "gaoya": 5.0},
        MIXED: {CLICKHOUSE: 1.5},
        CORPUS: {CLICKHOUSE: 1.5},
    },
}
LIVE = (0.4, 0.6)  # a bit that is set in a smaller or larger share of unrelated texts tells little
_FIRST = (
    "from neardup import Fingerprinter; Fingerprinter().one('the bridge over the river was built "
    "by two brothers')"
)

Found = Mapping[str, Figures]  # contender -> what its trial told


def main() -> None:
    parser = common.options(__doc__, "fewer texts and passes", has_peers=True)
    parser.add_argument("--contenders", type=common.names, default=list(OF_TEXTS))
    chosen = parser.parse_args()
    where = machine()
    texts = {
        "speed": speed_texts(CORPORA, 300 if chosen.quick else 2_000),
        "quality": quality_texts(CORPORA, 80 if chosen.quick else 400),
    }
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "texts.json"
        path.write_text(json.dumps(texts), encoding="utf-8")
        for name in chosen.contenders:
            found[name] = ask_contender(
                "texts",
                name,
                path,
                0.1 if chosen.quick else 1.5,
                peers_python=chosen.peers_python,
                seconds_max=TRIAL_S_MAX,
            )
            print(f"{name:34} {found[name].get('left_out') or found[name]['version']}", flush=True)
        path.write_text(json.dumps(stage_texts(40 if chosen.quick else 200)), encoding="utf-8")
        stages = ask("stages", "of_texts", path, 2 if chosen.quick else 100)
    first_s, later_s = first_fingerprints_s(1 if chosen.quick else 3)
    kept = {
        "machine": where,
        "trials": found,
        "first_start_s": first_s,
        "later_start_s": later_s,
        "stages": stages,
    }
    finish(
        chosen,
        "fingerprint",
        kept,
        bars(found, first_s, later_s) + tables(found) + stage_table(stages),
    )


def first_fingerprints_s(rounds: int) -> tuple[float, float]:
    """
    Seconds from the start of a process to its end, the first fingerprint made: with an empty cache,
    and with that one.

    By the clock, the least of all rounds: other work on the machine only adds.
    """
    first, later = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            first.append(_process_s(cache))
            later += [_process_s(cache) for _ in range(3)]
    return min(first), min(later)


def _process_s(cache: str) -> float:
    begun = time.perf_counter()
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    subprocess.run(
        [sys.executable, "-c", _FIRST], cwd=common.REPOSITORY, env=environment, check=True
    )
    return time.perf_counter() - begun


def tables(found: Found) -> list[str]:
    """A table of speed for each set of texts, and one of nearness for each set of originals."""
    lines: list[str] = []
    for kind, ours in found[OURS]["speed"].items():
        rows = []
        for name, trial in found.items():
            if "left_out" in trial:
                rows.append([name, "", trial["left_out"], "", ""])
                continue
            speed = trial["speed"][kind]
            ratio = (
                f"{ours['documents_s'] / speed['documents_s']:.1f} ×"
                if common.package_of(name)
                else ""
            )
            rows.append(
                [
                    name,
                    trial["version"],
                    f"{speed['documents_s']:,.0f}",
                    f"{speed['mb_s']:,.0f}",
                    ratio,
                ]
            )
        lines += [
            f"### {kind}",
            "",
            *table(("", "version", "documents/s", "MB/s", "neardup is"), rows),
        ]
    for kind in found[OURS]["nearness"]:
        rows = []
        for name, trial in found.items():
            if name.startswith(f"{OURS}, ") or "left_out" in trial:
                continue
            near, shares = trial["nearness"][kind], trial["shares"]
            told = [f"{near['recall'][change]:.3f}" for change in CHANGES]
            live = "" if shares is None else f"{live_bits(shares)} of {len(shares)}"
            rows.append([name, *told, f"{near['false_pairs']:,} of {near['pairs']:,}", live])
        lines += [
            f"### found again within 3 bits (MinHash: estimate of {ESTIMATE_MIN} or more), {kind}",
            "",
        ]
        lines += table(("", *CHANGES, "false pairs", "live bits"), rows)
    return lines


def stage_table(stages: Figures) -> list[str]:
    """A table of ns per token: scripts by stage."""
    lines = ["### where the time goes, ns per token", ""]
    if "left_out" in stages:
        return [*lines, str(stages["left_out"]), ""]
    rows = [
        [script, *(f"{taken:.2f}" for taken in each.values()), f"{sum(each.values()):.1f}"]
        for script, each in stages.items()
    ]
    return lines + table(("", *next(iter(stages.values())), "in all"), rows)


def live_bits(shares: list[float]) -> int:
    """
    How many bits are set in 40 to 60 % of the texts.

    >>> live_bits([0.5, 0.0, 0.41, 0.39])
    2
    """
    return sum(LIVE[0] <= share <= LIVE[1] for share in shares)


def bars(found: Found, first_start_s: float, later_start_s: float) -> list[str]:
    rows = []

    def add(what: str, value: float, wanted: str, is_reached: bool, form: str = ",.0f") -> None:
        rows.append((what, f"{value:{form}}", wanted, common.reached(is_reached)))

    ours = found[OURS]
    for kind, speed in ours["speed"].items():
        for peer, factor in BARS[this_build()][kind].items():
            if "speed" in found.get(peer, {}):
                ratio = speed["documents_s"] / found[peer]["speed"][kind]["documents_s"]
                add(f"{kind}: times {peer}", ratio, f"≥ {factor} ×", ratio >= factor, ".2f")
    live = live_bits(ours["shares"])
    add("bits set in 40 to 60 % of the unrelated texts", live, "64", live == 64)
    add(
        "first start, nothing cached, to the first fingerprint, s",
        first_start_s,
        "≤ 8",
        first_start_s <= 8,
        ".1f",
    )
    add("later start, s", later_start_s, "≤ 1", later_start_s <= 1, ".2f")
    return table(("what", "measured", "wanted", ""), rows)


# ---- the texts: unrelated ones of equal size for speed, and originals with changed copies

MIXED_BYTES = 4_500
ENGLISH_BYTES = 5_000
CHANGES = ("1 word", "1 % of words", "5 % of words", "menu and footer")


def speed_texts(folder: Path, texts: int) -> dict[str, list[str]]:
    """Sets of texts by name, each cut to one size."""
    mixed = [
        _generated(LANGUAGES[number % len(LANGUAGES)], number, MIXED_BYTES)
        for number in range(texts)
    ]
    found = {
        MIXED: mixed,
        ENGLISH: [_generated("en", number, ENGLISH_BYTES) for number in range(texts // 2)],
    }
    corpus = [text for text, language in corpus_texts(folder) if language != "en"]
    corpus = [cut(text, MIXED_BYTES) for text in corpus if len(text.encode()) >= MIXED_BYTES]
    if corpus:
        found[CORPUS] = corpus
    return found


def stage_texts(texts: int) -> dict[str, list[str]]:
    """
    Texts of one size for each way through the stages. Those in Thai are pieces of our own prose,
    for the sample crawl has none; mixed ones are pieces of all languages'.
    """
    languages = {"English": "en", "Cyrillic": "ru", "Chinese": "zh"}
    found = {
        name: [_generated(code, number, MIXED_BYTES) for number in range(texts)]
        for name, code in languages.items()
    }
    made = [_generated(code, 0, MIXED_BYTES) for code in LANGUAGES]
    sources = {"Thai": SAMPLES["th"]["prose"], "mixed": made}
    for name, source in sources.items():
        found[name] = [
            cut(nfc(pieces(source, MIXED_BYTES, random.Random(number))), MIXED_BYTES)
            for number in range(texts)
        ]
    return found


def quality_texts(folder: Path, originals: int) -> dict[str, dict[str, Any]]:
    """
    Originals that have nothing to do with each other, and for each change a copy of each of them.
    """
    generated: list[tuple[str, str | None]] = [
        (_generated(language, 10_000 + number, MIXED_BYTES), language)
        for language in LANGUAGES
        for number in range(originals // len(LANGUAGES))
    ]
    sets: dict[str, list[tuple[str, str | None]]] = {"generated": generated}
    corpus = [
        (cut(text, MIXED_BYTES), language)
        for text, language in corpus_texts(folder)
        if len(text) > 1_000
    ]
    if corpus:
        sets["corpus"] = random.Random(1).sample(corpus, min(originals, len(corpus)))
    return {
        name: {
            "originals": [text for text, _ in chosen],
            "changes": {
                change: [_changed(text, language, change, random.Random(number))
                         for number, (text, language) in enumerate(chosen)]
                for change in CHANGES
            },
        }
        for name, chosen in sets.items()
    }  # fmt: skip


def corpus_texts(folder: Path) -> Iterator[tuple[str, str | None]]:
    """
    One text for each document of the labelled corpus, of its versions the first, and its language.
    """
    seen: set[str] = set()
    for row in corpus_rows(folder):
        if "text" not in row or row["set"] in ("minhash", "adswap") or row["url"] in seen:
            continue  # these two sets are made of copies
        seen.add(row["url"])
        yield row["text"], detect(row["text"])


def cut(text: str, size: int) -> str:
    """
    The text's first bytes in UTF-8, whole characters.

    >>> cut("größe", 4)
    'grö'
    """
    return text.encode()[:size].decode(errors="ignore")


def _generated(language: str, number: int, size: int) -> str:
    """An article, made long enough by others of the same words."""
    dice = Dice(number)
    text = ""
    while len(text.encode()) < size:
        article = write_article(str(number), load_language(language), dice)
        joiner = article.language.joiner
        text += "\n\n".join(joiner.join(sentences) for sentences in article.paragraphs) + "\n\n"
    return cut(text, size)


def _changed(text: str, language: str | None, change: str, rng: random.Random) -> str:
    """
    The text with words replaced by other words of it (characters, where words are not apart), or
    with a frame.
    """
    if change == "menu and footer":
        menu = SAMPLES.get(language or "en", SAMPLES["en"])["menu"]
        return "\n\n".join([menu[0], text, *menu[1:]])
    joiner = " " if text.count(" ") > len(text) / 20 else ""
    words = text.split(" ") if joiner else list(text)
    places = [
        place for place, word in enumerate(words) if word.strip() and any(map(str.isalpha, word))
    ]
    count = (
        1
        if change == "1 word"
        else max(1, round(int(change.split(maxsplit=1)[0]) / 100 * len(places)))
    )
    originals = list(words)
    for place in rng.sample(places, count):
        while words[place] == originals[place]:
            words[place] = originals[rng.choice(places)]
    return joiner.join(words)


if __name__ == "__main__":
    main()
