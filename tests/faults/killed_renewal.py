"""
Renews a log as `neardup log renew` does, and is killed right after one of the steps: `FOLDER STEP`,
with the settings in the environment.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from worker.settings.loading import load_settings
from worker.shell.admin.renew import RenewStep, renew


def _kill(step: RenewStep) -> None:
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    renew(load_settings().settings, Path(sys.argv[1]), _kill)
