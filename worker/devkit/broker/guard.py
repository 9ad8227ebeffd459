"""Nothing of a broker outlives its owner: a tiny process that waits for the owner's end, however it comes."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

# The read ends when the owner's end of the pipe is closed, by SIGKILL too. A parent-death signal would be simpler, but
# exists on Linux only, and fires already when the thread ends that started the child.
# A number in a file is never another process's: a dead node keeps its number until the owner reaps it, and the owner
# empties the file when it does.
SCRIPT = """
read -r word && exit 0
for file in "$1"/node-*/node.pid; do
    read -r pid < "$file" && kill -9 "-$pid"
done
[ -z "$2" ] || { sleep 1; rm -rf "$2"; }
"""


class Guard:
    """
    Kills the nodes of `data` when this process is gone without having dismissed it.

    Args:
        data: the folder with the nodes' folders.
        remove: whether `data` goes, too.
    """

    def __init__(self, data: Path, *, remove: bool) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # our own script
            ["/bin/sh", "-c", SCRIPT, "guard", data, data if remove else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End the guard: there is nothing left to kill."""
        with suppress(BrokenPipeError):
            self._process.communicate(b"done\n")
        self._process.wait()
