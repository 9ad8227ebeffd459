"""What a fingerprint is and what counts as near. With another value here the log must be rebuilt."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, model_validator
from pydantic_settings import NoDecode

from worker.core.parameters import Parameters
from worker.log.definition import Definition
from worker.settings.field import setting

__all__ = ["EngineSettings"]


def _split(value: Any) -> Any:
    """Read "1,2" as flags and the environment have it; a list, as a file has it, stays."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


_DEFAULT = Parameters()


class EngineSettings(BaseModel):
    """What a fingerprint is and what counts as near."""

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
        )

    @property
    def definition(self) -> Definition:
        """What all records of this deployment's log must agree on."""
        return Definition(self.parameters.scheme, self.parameters.hash, self.max_distance)

    @model_validator(mode="after")
    def _parameters_agree(self) -> Self:
        assert self.parameters  # its own checks raise ValueError
        return self
