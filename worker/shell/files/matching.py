"""Matches the rows of a frame against a reference: the documents that both have."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from functools import partial
from typing import Any

from worker.shell.files.archives.column_names import ColumnNames
from worker.shell.files.deduplicator import Deduplicator
from worker.shell.files.frames import Unjudged, judged_frame


def match(
    frame: Any,
    reference: Deduplicator | Any,
    *,
    id_column: Hashable | None = None,
    text_column: Hashable | None = None,
    url_column: Hashable | None = None,
    time_column: Hashable | None = None,
) -> Any:
    """
    Judge a frame's rows against a reference alone: a training set, or a list of blocked texts.

    Returns the frame of `Deduplicator.verdicts_frame`: `duplicate_of` is the doc_id in the
    reference, and `stays` is true for a row of which the reference has no copy. Rows are not
    compared with each other. A row is another document than those of the reference, even if it has
    the doc_id or the URL of one.

    Args:
        frame: as for `verdicts_frame`.
        reference: documents as for `add_many`, with the same names of columns; or a `Deduplicator`
            that has them, which stays as it is. It can be asked again, has rules of its own, and
            may have read other columns.
        id_column, text_column, url_column, time_column: as in `add_many`.

    Raises:
        TypeError, DocumentError: as in `verdicts_frame`, also for the reference. TypeError also:
            the two are in the wrong order.

    Cost: for each row that of `add_many`.

    >>> import polars
    >>> train = polars.DataFrame({"doc_id": ["a"], "text": ["The ferry to the island is late."]})
    >>> texts = ["Nothing of the kind.", "the ferry to the island is late"]
    >>> test = polars.DataFrame({"doc_id": ["a", "b"], "text": texts})
    >>> match(test, train).select("doc_id", "stays", "duplicate_of").rows()
    [('a', True, None), ('b', False, 'a')]
    """
    if isinstance(frame, Deduplicator):
        raise TypeError(
            "wanted a frame, got a Deduplicator: give the frame first, match(frame, reference)"
        )
    columns = ColumnNames(id_column, text_column, url_column, time_column)
    known = reference
    if not isinstance(known, Deduplicator):
        known = Deduplicator()
        judged = known.add_many(
            reference,
            errors="return",
            id_column=id_column,
            text_column=text_column,
            url_column=url_column,
            time_column=time_column,
        )
        unjudged = Unjudged()
        for answer in judged:
            unjudged.take(answer)
        unjudged.check("rows of the reference")
        unjudged.warn(rows="rows of the reference", consequence="are not matched against")
    if not len(known):
        warnings.warn(
            "the reference has no document that a row could be a copy of, so all rows stay: was it "
            "an iterator that had been read, or an `add_many` whose verdicts were not taken?",
            stacklevel=2,
        )
    judge = partial(known.questions, columns=columns, errors="return", as_others=True)
    return judged_frame(frame, judge, columns, are_kept=False)
