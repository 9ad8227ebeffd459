"""
How long an original stays: settings that every replica of a log must share, because they change verdicts.

    record's time stamp  ─► the log's clock: the largest time stamp so far, so that it never goes back
    before a record      originals not seen for longer than `expire_after_ms` leave
    its rows             are judged against those that stay
    after it             originals seen again move to the end of the queue (`expire_from` "last" only);
                         of more than `documents_max` the first of the queue leave

Retention acts between records, so one record's rows all see the same originals leave. The queue is the order of rows:
each original enters at its end. Time is the log's own; no replica looks at a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_RENEWALS = 16  # an original moves at most so often in a window, and in a turn of the queue


@dataclass(frozen=True, slots=True)
class Retention:
    """
    When originals leave.

    Args:
        expire_after_ms: of the log's time since an original was seen; 0: never.
        expire_from: what counts as seen: its own record ("first"), or also its duplicates and redeliveries ("last").
            Moving an original costs as much as a new one, so "last" moves it only when a sixteenth of the window has
            passed since it was seen, or, with `documents_max`, a sixteenth of so many originals stand behind it.
        documents_max: originals after each record; 0: any number. The one that was seen longest ago leaves first.
    Raises:
        ValueError: a number is negative, or `expire_from` neither "first" nor "last".

    >>> Retention(expire_after_ms=60_000).is_endless, Retention().is_endless
    (False, True)
    >>> str(Retention(86_400_000, "last", 1_000))
    'expire_after_s 86400, expire_from last, documents_max 1000'
    """

    expire_after_ms: int = 0
    expire_from: Literal["first", "last"] = "first"
    documents_max: int = 0

    def __post_init__(self) -> None:
        for name in ("expire_after_ms", "documents_max"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 (no limit) or more, got {getattr(self, name)}")
        if self.expire_from not in ("first", "last"):
            raise ValueError(f"expire_from must be 'first' or 'last', got {self.expire_from!r}")

    def __str__(self) -> str:
        if self.is_endless:
            return "originals kept for ever"
        seconds = f"{self.expire_after_ms / 1_000:.3f}".rstrip("0").rstrip(".")
        return f"expire_after_s {seconds}, expire_from {self.expire_from}, documents_max {self.documents_max}"

    @property
    def is_endless(self) -> bool:
        """Nothing ever leaves by itself; then `expire_from` means nothing."""
        return not self.expire_after_ms and not self.documents_max

    @property
    def renews(self) -> bool:
        """Whether an original that is seen again stays longer."""
        return self.expire_from == "last" and not self.is_endless

    @property
    def renewed_after_ms(self) -> int | None:
        """An original seen again moves when it was last moved at least so long ago; None: time does not matter."""
        return max(self.expire_after_ms // _RENEWALS, 1) if self.expire_after_ms else None

    @property
    def renewed_after_originals(self) -> int | None:
        """… or when it is at least that many places from the queue's end; None: its place does not matter."""
        return max(self.documents_max // _RENEWALS, 1) + 1 if self.documents_max else None


ENDLESS = Retention()
