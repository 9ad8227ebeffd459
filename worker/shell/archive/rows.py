"""
The rows of a run, as its tasks store them: a file of Parquet for each input, in the input's order.

`tasks.make_rows` writes them, and whoever reads them gets them with the numbers of their documents
in the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from worker.core.sketch import WORDS
from worker.log.record import Rows
from worker.log.texts import Texts
from worker.shell.archive.run import Run

NUMBERS = {
    "kinds": pa.uint8(), "fetched_at_ms": pa.int64(), "fingerprints": pa.uint64(),
    "doubts": pa.uint64(), "digests": pa.uint64(), "features": pa.uint32(), "marks": pa.uint64(),
}  # fmt: skip
TEXTS = ("doc_ids", "urls", "notes")
SCHEMA = pa.schema(
    {
        **NUMBERS, "sketches": pa.binary(8 * WORDS), **dict.fromkeys(TEXTS, pa.large_binary()),
        "line": pa.int64(), "offset": pa.int64(), "key": pa.binary(), "score": pa.float64(),
    }
)  # fmt: skip


def texts_of(column: pa.Array) -> Texts:
    """Return the texts of a column of LargeBinary. Copies nothing."""
    _, ends, data = column.buffers()
    if not len(column):
        return Texts.of([])
    edges = np.frombuffer(ends, np.int64)[column.offset : column.offset + len(column) + 1]
    bytes_of = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return Texts(bytes_of[edges[0] : edges[-1]], edges[1:] - edges[0])


class RowGroup(NamedTuple):
    """Rows to be judged, with their places in the file."""

    rows: Rows
    scores: NDArray[np.float64]  # NaN: none
    places: list[Any]  # the Arrow columns line, offset and key


def read_rows(run: Run, number: int, begin: int = 0) -> Iterator[RowGroup]:
    """
    Yield an input's rows, from document `begin` of the run on. Their offsets count the run's
    documents.

    Cost: 0.2 to 3 µs each.
    """
    with parquet.ParquetFile(run.folder / "rows" / f"{number:06}.parquet") as file:
        at = run.firsts[number]
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if at + count > begin:
                for batch in (
                    file.read_row_group(group).combine_chunks().to_batches()
                ):  # one, or none of no rows
                    part = batch.slice(max(begin - at, 0))
                    yield _group(part, max(begin, at))
            at += count


def _group(batch: pa.RecordBatch, begin: int) -> RowGroup:
    """Return rows from document `begin` of the run on."""
    columns: dict[str, Any] = {name: batch[name].to_numpy() for name in NUMBERS}
    columns |= {name: texts_of(batch[name]) for name in TEXTS}
    at = batch["sketches"].offset
    sketches = np.frombuffer(batch["sketches"].buffers()[1], np.uint64).reshape(-1, WORDS)[
        at : at + batch.num_rows
    ]
    rows = Rows(offsets=np.arange(begin, begin + batch.num_rows), sketches=sketches, **columns)
    scores = batch["score"].to_numpy(zero_copy_only=False)
    return RowGroup(rows, scores, [batch[name] for name in ("line", "offset", "key")])
