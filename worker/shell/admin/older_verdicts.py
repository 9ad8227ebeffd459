"""
Compares verdicts of older versions, which lack fields that this version writes, with the log's.

Fields are added to a verdict, never changed. Which fields a verdict lacks is known when it is read,
behind the log. So such verdicts are noted, and the log is replayed again to compare them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel

from schemas.verdict import VerdictMessage
from worker.errors import DocumentError
from worker.shell.admin.published import OFFSET_BITS, AnswerMessage, digest
from worker.shell.messages import VerdictBytes, decode_verdict, encode_verdict, message_fields


class OlderVerdicts:
    """
    The verdicts that lack optional fields of the schema, as columns: 23 bytes each.

    Give it all of them first (`add`), then the log's verdicts (`settle`), then ask which of them
    are `unsettled`.
    """

    def __init__(self) -> None:
        self._partitions = array("i")
        self._offsets = array("q")
        self._digests = array("Q")  # without the fields that are lacking
        self._lacking = array("H")  # which these are, by their place in `_sets`
        self._sets: dict[tuple[str, ...], int] = {}  # verdicts lack few different sets of fields
        self._order: NDArray[np.int64] | None = None
        self._keys = np.empty(0, np.uint64)
        self._is_settled = np.empty(0, np.bool_)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._offsets)

    def add(self, partition: int, offset: int, lacking: tuple[str, ...], digest: int) -> None:
        """Add a verdict: the place of its document, the paths that it lacks, its content."""
        self._partitions.append(partition)
        self._offsets.append(offset)
        self._digests.append(digest)
        self._lacking.append(self._sets.setdefault(lacking, len(self._sets)))

    def settle(self, partition: int, offset: int, answer: VerdictBytes) -> int:
        """Return how many of the verdicts at this place equal those of the log. Cost: some 5 µs."""
        if self._order is None:
            keys = _place_keys(np.array(self._partitions), np.array(self._offsets))
            self._order = np.argsort(keys, kind="stable")
            self._keys = keys[self._order]
            self._is_settled = np.zeros(len(keys), np.bool_)
        [key] = _place_keys(np.array([partition]), np.array([offset]))
        begin, end = (int(np.searchsorted(self._keys, key, side)) for side in ("left", "right"))
        sets = list(self._sets)
        settled = 0
        for place in self._order[begin:end].tolist():
            wanted = _digest_without(answer.key, answer.value, sets[self._lacking[place]])
            if not self._is_settled[place] and wanted == self._digests[place]:
                self._is_settled[place] = True
                settled += 1
        return settled

    def unsettled(self) -> Iterator[tuple[int, int, tuple[str, ...], int]]:
        """Yield partition, offset, lacking paths and content of those that the log does not say."""
        sets = list(self._sets)
        is_settled = self._is_settled if self._order is not None else np.zeros(len(self), np.bool_)
        for place in np.flatnonzero(~is_settled).tolist():
            lacking = sets[self._lacking[place]]
            yield self._partitions[place], self._offsets[place], lacking, self._digests[place]


def _place_keys(partitions: NDArray[np.int32], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return one number for each place of a `checked_place`."""
    shift = np.uint64(OFFSET_BITS)
    return partitions.astype(np.uint64) << shift | offsets.astype(np.uint64)


def _optional_paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the dotted paths of the fields that a message may lack."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{name}"
        if not field.is_required():
            yield path
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from _optional_paths(kind, f"{path}.")


OPTIONAL = tuple(_optional_paths(VerdictMessage))


def older_content(published: AnswerMessage) -> tuple[tuple[str, ...], int] | None:
    """
    Return the paths of the optional fields that a verdict lacks, and its digest without them; None
    if it lacks none, or is no verdict.
    """
    try:
        verdict = decode_verdict(published.value or b"")
    except DocumentError:
        return None
    fields = message_fields(verdict)
    lacking = tuple(path for path in OPTIONAL if _is_lacking(fields, path))
    if not lacking:
        return None
    key, value = encode_verdict(verdict)
    if key != published.key:
        return None
    return lacking, _digest_without(key, value, lacking)


def _is_lacking(fields: Mapping[str, Any], path: str) -> bool:
    """Return whether the last part of a path is not there, but what it would be a part of."""
    name, _, rest = path.partition(".")
    if not rest:
        return name not in fields
    return name in fields and _is_lacking(fields[name], rest)


def _digest_without(key: bytes | None, value: bytes | None, paths: Iterable[str]) -> int:
    """Return a digest of a verdict's content without the fields at these paths."""
    fields = orjson.loads(value or b"{}")
    for path in paths:
        *parents, name = path.split(".")
        holder = fields
        for parent in parents:
            holder = holder.get(parent, {})
        holder.pop(name, None)
    return digest(key, orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))
