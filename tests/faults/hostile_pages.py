"""A worker whose page processes do what a page tells them to: `python -m tests.faults.hostile_pages worker …`."""

from __future__ import annotations

import functools
import sys

from tests.shell.hostile_child import hostile
from worker.__main__ import main
from worker.shell import worker
from worker.shell.page_child import serve
from worker.shell.pool import PagePool

if __name__ == "__main__":
    if sys.argv[1:] == ["--page-process"]:
        serve(hostile)
    else:
        command = [sys.executable, "-m", "tests.faults.hostile_pages", "--page-process"]
        setattr(worker, "PagePool", functools.partial(PagePool, command=command))  # noqa: B010  # mypy sees no such name
        main()
