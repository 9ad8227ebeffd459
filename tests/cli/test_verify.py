"""`neardup verify`: the last line says what the counts mean."""

from __future__ import annotations

import pytest

from worker.cli.group import conclusion
from worker.shell.admin.audit import Report


@pytest.mark.parametrize(
    ("unanswered", "lost", "said"),
    [
        (0, 0, "every document is answered once, as the log says"),
        (7, 0, "what is answered is answered once, as the log says; 7 documents wait for a worker"),
        (7, 1, "NOT CLEAN"),
    ],
)
def test_the_last_line_claims_no_more_than_there_is(unanswered: int, lost: int, said: str) -> None:
    """What only waits is no defect, and not answered either."""
    assert conclusion(Report(9, 9 - unanswered, {}, unanswered, 0, {"lost": lost}, (), 1, 9, 0)) == said
