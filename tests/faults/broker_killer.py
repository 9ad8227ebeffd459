"""
A worker that kills the broker right after one of its commits has returned:
`python -m tests.faults.broker_killer worker …`, with BROKER_PID, KILL_AT_COMMIT and KILL_AFTER_MS.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from worker.__main__ import main
from worker.shell.pipeline import service
from worker.shell.runtime.fault_hooks import FaultHook, Point


def _killing() -> FaultHook:
    """Return the hook that does it, in the thread that has committed."""
    broker_pid = int(os.environ["BROKER_PID"])
    at_commit = int(os.environ["KILL_AT_COMMIT"])
    after_s = float(os.environ["KILL_AFTER_MS"]) / 1_000
    commits = 0

    def reach(point: Point) -> None:
        nonlocal commits
        if point is not Point.AFTER_COMMIT:
            return
        commits += 1
        if commits == at_commit:
            time.sleep(after_s)
            os.killpg(broker_pid, signal.SIGKILL)

    return reach


if __name__ == "__main__":
    # The thread that has committed gets the interpreter's lock at once, and not after 5 ms.
    sys.setswitchinterval(1e-5)
    vars(service)["from_environment"] = _killing  # before a worker asks for its hook
    main()
