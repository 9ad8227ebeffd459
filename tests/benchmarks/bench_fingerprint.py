"""
The fingerprint kernel beside its peers: `make bench-fingerprint`.

On the same texts, each contender in a process of its own on one core: documents and megabytes a second, the share of
changed copies within three bits of their originals, unrelated pairs within three bits, live bits. Then ours alone: the
time from the start of a process to its first fingerprint. Texts are generated; where the labelled
corpus is present (NEARDUP_CORPORA, or ../shared/corpora), its texts too. Peers run in an environment of their own; one
that cannot be installed there is told as absent. Written to tests/benchmarks/results: fingerprint.json, .md, .png.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.fingerprint.contenders import CONTENDERS, PACKAGES
from tests.benchmarks.fingerprint.report import bars, markdown, plot
from tests.benchmarks.fingerprint.starts import first_fingerprints_s
from tests.benchmarks.fingerprint.texts import quality_texts, speed_texts
from tests.benchmarks.machine import RESULTS, machine
from tests.conftest import REPOSITORY

TRIAL_S_MAX = 300.0


def trial(name: str, python: str, texts: Path, seconds: float) -> dict[str, Any]:
    """What one contender's process tells."""
    command = [python, "-m", "tests.benchmarks.fingerprint.trial", name, str(texts), str(seconds)]
    try:
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=TRIAL_S_MAX, check=False)
    except subprocess.TimeoutExpired:
        return {"left_out": f"not done after {TRIAL_S_MAX:.0f} s"}
    except FileNotFoundError:
        return {"left_out": "absent: no environment of peers"}
    if done.returncode != 0 or not done.stdout:
        return {"left_out": f"failed: {(done.stderr.splitlines() or ['without a word'])[-1][:120]}"}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer texts and passes; nothing is kept")
    parser.add_argument("--contenders", type=lambda text: text.split(","), default=list(CONTENDERS))
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--no-save", action="store_true", help="leave the kept results as they are")
    options = parser.parse_args()
    where = machine()
    folder = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    speed = speed_texts(folder, 300 if options.quick else 2_000)
    quality = quality_texts(folder, 80 if options.quick else 400)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "texts.json"
        path.write_text(json.dumps({"speed": speed, "quality": quality}), encoding="utf-8")
        for name in options.contenders:
            python = options.peers_python if name in PACKAGES else sys.executable
            found[name] = trial(name, python, path, 0.1 if options.quick else 1.5)
            print(f"{name:34} {found[name].get('left_out') or found[name]['version']}", flush=True)
    first_s, later_s = first_fingerprints_s(1 if options.quick else 3)
    text = f"{bars(found, first_s, later_s)}\n{markdown(found)}"
    print(f"\n{text}")
    if options.quick or options.no_save:
        return
    RESULTS.mkdir(exist_ok=True)
    kept = {"machine": where, "trials": found, "first_start_s": first_s, "later_start_s": later_s}
    (RESULTS / "fingerprint.json").write_text(json.dumps(kept, ensure_ascii=False) + "\n")
    told = ", ".join(f"{name} {value}" for name, value in where.items())
    (RESULTS / "fingerprint.md").write_text(f"Fingerprints on one core. {told}.\n\n{text}")
    plot(found, RESULTS / "fingerprint.png")


if __name__ == "__main__":
    main()
