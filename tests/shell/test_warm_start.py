"""`neardup warm-up` compiles everything: a read-only image would compile the rest at every start."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.conftest import REPOSITORY, output_of


def test_no_document_needs_a_kernel_that_the_warm_up_did_not_compile(tmp_path: Path) -> None:
    """
    Of no kind, neither in a worker, nor in `dedup`, a question or the library, nor where pairs of
    fingerprints are searched. That texts need none of the kernels for pages is tested in
    `test_first_start.py`.

    It needs a process of its own, because other tests have loaded kernels into this one.
    """
    said = output_of(sys.executable, "-m", "tests.shell.warm_start", tmp_path, cwd=REPOSITORY)
    assert said.splitlines() == ["done"]
