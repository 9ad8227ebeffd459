"""How fingerprints are made and compared: what all records of one log must agree on."""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from worker.errors import StopError
from worker.log.record import Author
from worker.log.retention import ENDLESS, Retention

__all__ = ["Definition"]


@dataclass(frozen=True, slots=True)
class Definition:
    """
    The scheme and parameters of the fingerprints, and the rules of judging them.

    Args:
        scheme: the fingerprint scheme's id, at most 32 ASCII characters.
        parameters: the hash of the fingerprint's parameters, 16 hex digits.
        max_distance: bits in which a duplicate may differ from its original.
        retention: when originals leave; a log whose originals stay for ever has the hash that it had without one.

    >>> Definition("nd1", "00" * 8, 3).hash == Definition("nd1", "00" * 8, 6).hash
    False
    """

    scheme: str
    parameters: str
    max_distance: int
    retention: Retention = ENDLESS

    @property
    def hash(self) -> int:
        """64 bits over everything that changes a verdict; each record carries it."""
        rules = [self.scheme, self.parameters, str(self.max_distance)]
        if not self.retention.is_endless:
            rules.append(str(self.retention))
        return xxhash.xxh64_intdigest("\n".join(rules).encode())

    def author(self, name: str) -> Author:
        """Give the header of records that `name` writes."""
        return Author(name, self.scheme, self.hash)

    def check(self, author: Author, log_offset: int) -> None:
        """
        Make sure that a record can be judged with the others.

        Raises:
            StopError: the record has another scheme or another parameter hash.
        """
        if (author.scheme, author.parameters_hash) != (self.scheme, self.hash):
            raise StopError(
                f"record {log_offset} of the log, written by {author.name!r}, has scheme {author.scheme} with "
                f"parameters {author.parameters_hash:016x}; this worker has {self.scheme} with {self.hash:016x} "
                f"(fingerprint parameters {self.parameters}, max_distance {self.max_distance}, {self.retention}). "
                f"Start it with the log's parameters, or give it a new log topic and rebuild that from the documents"
            )
