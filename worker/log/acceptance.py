"""
Which records of the log count: the first definition rules, and what is not of it changes nothing, on any replica.

    record                                  the log has no definition    it has one, of records of format f
    declaration of a definition             it rules from now on         the same one: its format rules if it is above
                                                                         f and "raises"; another one: ignored
    rows                                    ignored                      of it, of a format up to f: applied
                                                                         else: ignored
    rows of a format that is read no more   this version stops           ignored
    anything else, damage, null             ignored                      ignored

A rule looks at the log alone, so that all replicas ignore the same, whatever their version: a worker that could read a
newer format ignores it, too, until a declaration allows it. A worker whose own definition is not the log's stops.
"""

from __future__ import annotations

from enum import StrEnum

from worker.errors import DefinitionError, RecordError, StopError
from worker.log.definition import Definition, LogDefinition, is_declaration
from worker.log.record import FORMAT_OLDEST, FORMAT_VERSION, decode
from worker.log.rows import Record


class Ignored(StrEnum):
    """Why a record of the log changes nothing."""

    FOREIGN = "foreign"  # not ours, null or damaged
    DEFINITION = "definition"  # of another definition than the log's
    FORMAT = "format"  # of another format than the log's


class Acceptance:
    """
    Decides on each record of one log, in order.

    Args:
        definition: this process's; the log must have the same.
        declared: the log's definition, where a snapshot knows it; None: it has none yet.
    """

    def __init__(self, definition: Definition, declared: LogDefinition | None = None) -> None:
        if declared:
            _check_format(declared.record_format, "the snapshot")
        self.definition = definition
        self.declared = declared
        self._hash = definition.hash

    @property
    def record_format(self) -> int:
        """The highest format of the log's records that counts; 0: the log has no definition yet."""
        return self.declared.record_format if self.declared else 0

    def accept(self, value: bytes, log_offset: int) -> Record | Ignored | None:
        """
        Return the record to apply, or why it is ignored; None for a definition that is this process's.

        Raises:
            DefinitionError: the log's definition is not this process's, or its format is read no more.
            StopError: from here on the log's records have a format that this version cannot read.
        Cost: that of `decode`.
        """
        try:
            if is_declaration(value):
                return self._declare(LogDefinition.decode(value), log_offset)
            record = decode(value)
        except RecordError as error:
            if not self.declared and error.record_format:
                _check_format(error.record_format, f"the log (record {log_offset})")
            return Ignored.FORMAT if error.record_format else Ignored.FOREIGN
        author = record.author
        if not self.record_format or (author.scheme, author.parameters_hash) != (self.definition.scheme, self._hash):
            return Ignored.DEFINITION
        return record if record.format <= self.record_format else Ignored.FORMAT

    def _declare(self, declared: LogDefinition, log_offset: int) -> Ignored | None:
        where = f"the log (record {log_offset}, written by {declared.author!r})"
        if not self.declared:
            self.definition.check(declared, where)
            _check_format(declared.record_format, where)
        elif (declared.scheme, declared.hash) != (self.definition.scheme, f"{self._hash:016x}"):
            return Ignored.DEFINITION
        elif not declared.raises:
            return None
        if declared.record_format > FORMAT_VERSION:
            raise StopError(
                f"{where} goes on in records of format {declared.record_format}, this version reads up to "
                f"{FORMAT_VERSION}: start the newer version that the other workers run"
            )
        if not self.declared:
            self.declared = declared
        elif declared.record_format > self.record_format:
            self.declared = self.declared._replace(record_format=declared.record_format)
        return None


def _check_format(record_format: int, where: str) -> None:
    """Refuse the records of a format that this version reads no more; they would be lost without a word."""
    if record_format < FORMAT_OLDEST:
        raise DefinitionError(where, {"record_format": (record_format, FORMAT_VERSION)})
