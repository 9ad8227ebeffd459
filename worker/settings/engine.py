"""What a fingerprint is, what counts as near, how long an original stays: all that a log's records must agree on."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, model_validator
from pydantic_settings import NoDecode

from worker.core import stopwords
from worker.core.parameters import Parameters
from worker.log.definition import Definition
from worker.log.retention import Retention
from worker.settings.field import setting

__all__ = ["EngineSettings"]


def _split(value: Any) -> Any:
    """Read "1,2" as flags and the environment have it; a list, as a file has it, stays."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


@lru_cache(maxsize=8)
def _own_words(path: Path) -> frozenset[str]:
    """The words of a user's list, read once a process."""
    try:
        return stopwords.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"stopwords_file {path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"stopwords_file {path}: {error}") from error


_DEFAULT = Parameters()


class EngineSettings(BaseModel):
    """What a fingerprint is, what counts as near, how long an original stays. A log has one value of each."""

    max_distance: int = setting(
        3,
        "bits",
        "Fingerprints that differ in at most so many of their 64 bits are duplicates. Each bit more costs index time.",
        low=0,
        high=15,
    )
    token_unit: Literal["word", "character"] = setting(
        _DEFAULT.unit, "choice", "What a token is; in scripts without spaces it is always a character."
    )
    shingle_widths: Annotated[tuple[int, ...], NoDecode, BeforeValidator(_split)] = setting(
        _DEFAULT.widths, "tokens", "Tokens in a shingle: one number or several, ascending, like 1,2."
    )
    anchored_weight: int = setting(
        _DEFAULT.anchored_weight,
        "weight",
        "Of a shingle with a function word: prose is full of them, advertisements and menus are not.",
        low=1,
        high=255,
    )
    unanchored_weight: int = setting(
        _DEFAULT.unanchored_weight, "weight", "Of every other shingle; 0 leaves them out.", low=0, high=255
    )
    term_frequency: Literal["one", "log", "tf"] = setting(
        _DEFAULT.term_frequency, "choice", "What n occurrences count: 1, 1 + floor(log2 n), or n."
    )
    anchors: Literal["elected", "named", "union"] = setting(
        _DEFAULT.anchors,
        "choice",
        "Whose function words anchor: of the language that the text itself elects, that its message names, or of all.",
    )
    stopwords_file: Path | None = setting(
        None,
        "file",
        "Function words of your own in place of the built-in lists: UTF-8, one word a line, # begins a comment.",
    )
    tokens_min: int = setting(
        _DEFAULT.tokens_min, "tokens", "A document with fewer must be equal to match.", low=1, high=1_000
    )
    shingles_min: int = setting(
        _DEFAULT.shingles_min,
        "shingles",
        "With unanchored_weight 0: a document with fewer anchored shingles counts all of them.",
        low=1,
        high=1_000,
    )
    mask_numbers: bool = setting(
        _DEFAULT.mask_numbers, "yes/no", "Dates, times and prices count as one and the same token."
    )
    mask_identifiers: bool = setting(
        _DEFAULT.mask_identifiers, "yes/no", "Session ids and hashes count as one and the same token."
    )
    expire_after_s: int = setting(
        0,
        "s",
        "An original that has not been seen for so long, by the log's time stamps, is forgotten: the next like it is "
        "new. 0: never.",
        low=0,
        high=10_000_000_000,
    )
    expire_from: Literal["first", "last"] = setting(
        "first", "choice", "What counts as seen: the original's own record, or also its duplicates and redeliveries."
    )
    documents_max: int = setting(
        0,
        "documents",
        "Beyond so many originals those seen longest ago are forgotten, after each record of the log. 0: any number.",
        low=0,
        high=4_000_000_000,
    )

    @property
    def parameters(self) -> Parameters:
        """The fingerprint's parameters as the engine takes them."""
        return Parameters(
            unit=self.token_unit,
            widths=self.shingle_widths,
            anchored_weight=self.anchored_weight,
            unanchored_weight=self.unanchored_weight,
            term_frequency=self.term_frequency,
            anchors=self.anchors,
            tokens_min=self.tokens_min,
            shingles_min=self.shingles_min,
            mask_numbers=self.mask_numbers,
            mask_identifiers=self.mask_identifiers,
            stopwords=None if self.stopwords_file is None else _own_words(self.stopwords_file),
        )

    @property
    def definition(self) -> Definition:
        """What all records of this deployment's log must agree on."""
        retention = Retention(self.expire_after_s * 1_000, self.expire_from, self.documents_max)
        return Definition(self.parameters.scheme, self.parameters.hash, self.max_distance, retention)

    @model_validator(mode="after")
    def _parameters_agree(self) -> Self:
        assert self.parameters  # its own checks raise ValueError
        return self
