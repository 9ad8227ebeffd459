"""`python -m tests.faults.chaos`: runs, one line each, and the closing line."""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.chaos.checker import judge
from tests.faults.chaos.relay import Relay
from tests.faults.chaos.run import Chaos, Outcome
from tests.faults.chaos.schedule import plan
from worker.devkit.broker import EmbeddedKafka, Extras


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--seed", type=int, help="of the first run; the others have the numbers after it"
    )
    parser.add_argument("--minutes", type=float, help="begin no run after so long")
    parser.add_argument("--folder", type=Path, help="for the traces of failed runs")
    parser.add_argument(
        "--show", action="store_true", help="print the faults of the seed, and run nothing"
    )
    parser.add_argument("--check", type=Path, help="judge the topics.pickle of a failed run again")
    return parser.parse_args()


def main() -> int:
    """Run. Return the exit code."""
    options = _arguments()
    if options.check is not None:
        result = judge(pickle.loads(options.check.read_bytes()))
        print(*result.findings, sep="\n")
        print(f"lost {result.lost} repeated {result.repeated} wrong {result.wrong}")
        return 0 if result.clean else 1
    first = options.seed if options.seed is not None else random.randrange(1_000_000)
    print(f"first seed {first}", flush=True)
    if options.show:
        print(*plan(first).faults, sep="\n")
        return 0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="neardup-chaos-"))
    outcomes: list[Outcome] = []
    broken = 0
    begun = time.monotonic()
    extras = Extras({"RELAYED": "PLAINTEXT"}, relayed=True)
    with (
        EmbeddedKafka(nodes=3, extras=extras) as kafka,
        Relay(kafka.extra_ports("RELAYED")) as relay,
    ):
        for seed in range(first, first + options.runs):
            if options.minutes is not None and time.monotonic() - begun > options.minutes * 60:
                break
            try:
                outcomes.append(Chaos(kafka, relay, plan(seed), folder / f"seed-{seed}").run())
            except Exception as error:
                broken += 1
                print(
                    f"seed {seed}: could not be judged: {error!r}; kept in "
                    f"{folder / f'seed-{seed}'}",
                    flush=True,
                )
            else:
                print(f"run {len(outcomes)} {outcomes[-1].line()}", flush=True)
    lost, repeated, wrong = (
        sum(getattr(outcome.result, name) for outcome in outcomes)
        for name in ("lost", "repeated", "wrong")
    )
    failed = broken + sum(not outcome.clean for outcome in outcomes)
    if failed:
        print(f"{failed} runs failed; their traces are in {folder}")
    elif options.folder is None:
        folder.rmdir()
    print(f"runs {len(outcomes)} lost {lost} repeated {repeated} wrong {wrong}")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
