"""The one frozen model of all settings and of the definition, and the checks across its groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, PrivateAttr, model_validator

from worker.log.preferred import Preferred
from worker.log.rules import Definition
from worker.settings.batches import BatchSettings
from worker.settings.connection import ConnectionSettings
from worker.settings.definition import DefinitionSettings, read_definition
from worker.settings.kafka import files_of
from worker.settings.operation import OperationSettings

DECIDING = tuple(DefinitionSettings.model_fields)  # the keys of a definition
# What options, variables and the file of settings may say.
SETTINGS = tuple(
    name
    for group in (ConnectionSettings, BatchSettings, OperationSettings)
    for name in group.model_fields
)


class Settings(DefinitionSettings, OperationSettings, BatchSettings, ConnectionSettings):
    """
    Every setting, and every key of the definition, which the file `definition` gives.

    Made by `worker.settings.load_settings`, or directly with keywords, as in tests.

    >>> Settings(group="night").group
    'night'
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,  # a password never stands in a traceback
    )

    _config: Path | None = PrivateAttr(None)

    @property
    def files(self) -> list[Path]:
        """
        The files that these settings were read from, or name: no command may write to one of them.
        """
        named = self._config, self.definition, self.stopwords_file, *files_of(self.kafka)
        return [path for path in named if path is not None]

    @property
    def rules(self) -> Definition:
        """The definition as the log has it: all records of this deployment's log must share it."""
        return Definition.of(
            self.parameters,
            self.search,
            self.retention,
            self.recrawls,
            self.text_characters_max,
            self.preferred_copies,
            self.url_rules,
        )

    @model_validator(mode="before")
    @classmethod
    def _read_definition(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Take the keys of the file `definition`."""
        named = values.get("definition")
        if not isinstance(named, str | Path):  # none, or what the field refuses
            return values
        return read_definition(Path(named)) | values

    @model_validator(mode="after")
    def _definition_agrees(self) -> Self:
        try:
            assert self.parameters and self.search  # their own checks raise ValueError
            Preferred.of(self.preferred_copies)
            assert self.pages_of_urls
        except ValueError as error:
            where = "" if self.definition is None else f"the definition {self.definition}: "
            raise ValueError(f"{where}{error}") from error
        return self

    @model_validator(mode="after")
    def _limits_agree(self) -> Self:
        if self.call_timeout_s * 1_000 >= self.max_poll_interval_ms:
            raise ValueError(
                f"call_timeout_s must be below kafka.max.poll.interval.ms, got "
                f"{self.call_timeout_s:g} s and {self.max_poll_interval_ms:,} ms: a call that "
                f"hangs must be seen before the group expels us"
            )
        if self.call_timeout_s * 1_000 <= self.transaction_timeout_ms:
            raise ValueError(
                f"call_timeout_s must exceed kafka.transaction.timeout.ms, got "
                f"{self.call_timeout_s:g} s and {self.transaction_timeout_ms:,} ms: committed() "
                f"answers only when another's transaction has timed out"
            )
        return self
