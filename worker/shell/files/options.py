"""
The options of a run over files: how documents are read, and which of them are kept.

`dedup` and `archive` have the same ones. What does not go together is refused here, in one way, and
a run is recognised by them (`identity.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from worker.shell.files.archives.column_names import ColumnNames
from worker.shell.files.choice import FIRST, Preference
from worker.shell.files.crawl import CrawlFiles

PER_CLUSTER_MAX = 1_000_000_000


class FileOptions(NamedTuple):
    """
    The options of a run over files, in addition to the settings.

    Attributes:
        keep: "new": documents that are kept are copied; "revisits": with a revisit record for each
            duplicate. None: verdicts alone are written.
        prefer: which document of a cluster is kept (`Preference`).
        per_cluster: how many documents of a cluster are kept; 0: none of a cluster of several.
        duplicates: whether the other documents are copied, too.
        fetched_at: the fetch time of documents without one, ISO 8601.
        id_column, text_column, url_column, time_column: the names of fields or columns.
        encoding: that of texts; None: their marks say it, else it is UTF-8.
        format: of an archive's files of verdicts. That of `dedup` is in the name of its output.
    """

    keep: str | None = None
    prefer: str = "first"
    duplicates: bool = False
    fetched_at: str | None = None
    id_column: str | None = None
    text_column: str | None = None
    url_column: str | None = None
    time_column: str | None = None
    encoding: str | None = None
    format: str | None = None
    per_cluster: int = 1

    @property
    def columns(self) -> ColumnNames:
        """The fields or columns that are named."""
        return ColumnNames(self.id_column, self.text_column, self.url_column, self.time_column)

    @property
    def preference(self) -> Preference:
        """The rule that chooses kept documents. Raises ValueError as `Preference.parse` does."""
        return Preference.parse(self.prefer)._replace(kept=self.per_cluster)

    @property
    def has_revisits(self) -> bool:
        """Whether a revisit record is written for each duplicate."""
        return self.keep == "revisits"

    def check(self) -> None:
        """
        Check that the options go together, before anything is read.

        Raises:
            ValueError: they do not.
            StopError: the encoding is unknown, or the fetch time is invalid.
        """
        if not 0 <= self.per_cluster <= PER_CLUSTER_MAX:
            raise ValueError(
                f"--per-cluster must be 0 (no document with copies) to {PER_CLUSTER_MAX:,}, "
                f"got {self.per_cluster:,}"
            )
        if self.keep is None and (self.duplicates or self.preference != FIRST):
            raise ValueError(
                "--duplicates requires --keep, and --prefer and --per-cluster require --keep new"
            )
        if self.has_revisits and self.preference != FIRST:
            raise ValueError(
                "--keep revisits names originals, the first of their clusters: "
                "leave --prefer and --per-cluster out"
            )
        self.open([])

    def open(self, paths: Sequence[str], *, is_reference: bool = False, **more: Any) -> CrawlFiles:
        """Return the documents of files; `more` are other arguments of `CrawlFiles`."""
        return CrawlFiles(
            paths,
            fetched_at_default=self.fetched_at,
            columns=self.columns,
            encoding=self.encoding,
            score_column=None if is_reference else self.preference.field,
            **more,
        )

    def identity(self, document_bytes_max: int) -> dict[str, Any]:
        """Return the options of a `RunIdentity`: these, and the setting that does the same."""
        return self._asdict() | {"document_bytes_max": document_bytes_max}
