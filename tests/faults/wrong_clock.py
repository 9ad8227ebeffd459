"""
A worker whose clock is wrong by CLOCK_OFFSET_S: `python -m tests.faults.wrong_clock worker …`.
"""

from __future__ import annotations

import os
import time

_OFFSET_S = int(os.environ.get("CLOCK_OFFSET_S", "0"))
_time, _time_ns = time.time, time.time_ns

time.time = lambda: _time() + _OFFSET_S
time.time_ns = lambda: _time_ns() + _OFFSET_S * 1_000_000_000

from worker.__main__ import main  # noqa: E402  # after the clock is set

if __name__ == "__main__":
    main()
