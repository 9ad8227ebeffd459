"""
Every setting of neardup, with unit, default, bound and reason: one frozen model, made once at the start.

    connection.py   the cluster, the group, the topics, security
    batches.py      sizes and times of the pipeline: each queue, batch and wait has a maximum
    engine.py       what a fingerprint is, what counts as near, how long an original stays
    operation.py    state on disk, metrics, logs
    load.py         flags over environment over file over defaults; errors that name their source
"""

from __future__ import annotations

from typing import Self

from pydantic import model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from worker.log.definition import Definition, Parts
from worker.log.record import SINCE
from worker.settings.batches import BatchSettings
from worker.settings.connection import ConnectionSettings
from worker.settings.engine import EngineSettings
from worker.settings.operation import OperationSettings

__all__ = ["DECIDING", "EngineSettings", "Settings"]

DECIDING = (*EngineSettings.model_fields, "text_characters_max")  # settings of the log's definition


class Settings(OperationSettings, EngineSettings, BatchSettings, ConnectionSettings, BaseSettings):
    """
    Every setting. Made by `worker.settings.load.load_settings`, or directly with keywords, as in tests.

    >>> Settings(group="night").group
    'night'
    """

    model_config = SettingsConfigDict(
        env_prefix="NEARDUP_",
        env_ignore_empty=True,  # compose files pass "" for what is not set
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,  # a password never stands in a traceback
    )

    @property
    def definition(self) -> Definition:
        """What all records of this deployment's log must agree on."""
        return Definition.of(
            Parts(self.parameters, self.search, self.retention, self.recrawls, self.text_characters_max)
        )

    @model_validator(mode="after")
    def _limits_agree(self) -> Self:
        _at_least(self, "batch_bytes_max", "document_bytes_max", "a document of the largest size must fit into a batch")
        _at_least(
            self, "max_poll_interval_ms", "session_timeout_ms", "librdkafka takes a shorter one for an error of ours"
        )
        _below(
            self, "call_timeout_s", "max_poll_interval_ms", "a call that hangs must be seen before the group expels us"
        )
        if self.call_timeout_s * 1_000 <= self.transaction_timeout_ms:
            raise ValueError(
                f"call_timeout_s must exceed transaction_timeout_ms, got {self.call_timeout_s:g} s and "
                f"{self.transaction_timeout_ms:,} ms: committed() answers only when another's transaction has timed out"
            )
        judged_by = "sketches" if self.search.similarity_min else "doubts" if self.search_mode == "directed" else ""
        needed = SINCE.get(judged_by, 1)
        if 0 < self.record_format < needed:
            raise ValueError(
                f"record_format must be 0 or at least {needed}, got {self.record_format}: its records have no "
                f"{judged_by}, by which documents are judged here"
            )
        return self


def _at_least(settings: Settings, larger: str, smaller: str, reason: str) -> None:
    if getattr(settings, larger) < getattr(settings, smaller):
        raise ValueError(
            f"{larger} must be at least {smaller}, got {getattr(settings, larger):,} and "
            f"{getattr(settings, smaller):,}: {reason}"
        )


def _below(settings: Settings, seconds: str, milliseconds: str, reason: str) -> None:
    if getattr(settings, seconds) * 1_000 >= getattr(settings, milliseconds):
        raise ValueError(
            f"{seconds} must be below {milliseconds}, got {getattr(settings, seconds):g} s and "
            f"{getattr(settings, milliseconds):,} ms: {reason}"
        )
