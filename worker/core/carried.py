"""
Machine code that came with this installation: whether it may run here, and where it lies.

A wheel of `make wheel`, and the image, carry numba's cache files of all kernels, compiled for
processors of 2013 and newer, with a description of what they were made with. They are used only if
Python, numba, the sources, the system and the processor fit the description. Otherwise each kernel
is compiled here, as in a clone.

numba's files are pickles, so whoever can write them can run code in this process. These lie between
the modules of this package, come from the same wheel, and whoever can write them can write the
modules, too. So they are trusted as the modules are. Nothing else may ever be loaded from here: the
folder is part of the package, and no setting names another.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numba
import xxhash
from numba.core import config
from numba.core.registry import cpu_target

_CORE = Path(__file__).parent
FOLDER = _CORE / "machine_code"
DESCRIPTION = "machine_code.json"  # in the folder

Processor = tuple[
    str, str, str
]  # system, name, features: as numba's cache names what it compiles for


class Origin(NamedTuple):
    """
    What machine code was made with and for.

    Attributes:
        python: as in the names of byte code, such as cpython-311.
        numba: its version.
        sources: the digest of the kernels' sources.
        system: LLVM's triple.
        processor: LLVM's name.
        features: LLVM's features of the processor with their signs, such as +avx2,-sse4a. Code may
            use those with a plus.
    """

    python: str
    numba: str
    sources: str
    system: str
    processor: str
    features: str

    @property
    def compiled_for(self) -> Processor:
        """The processor, as it stands in the keys of numba's cache."""
        return self.system, self.processor, self.features

    @property
    def needed(self) -> set[str]:
        """The features that code may use."""
        return {feature for feature in self.features.split(",") if feature.startswith("+")}


@cache
def sources_digest() -> str:
    """
    Return a digest of what machine code depends on: every file of `worker.core`, and the options
    given to numba.
    """
    digest = xxhash.xxh3_64(f"bounds checked: {getattr(config, 'BOUNDSCHECK', None)}".encode())
    for path in sorted(path for path in _CORE.rglob("*") if path.suffix in (".py", ".tsv", ".txt")):
        digest.update(f"{path.relative_to(_CORE).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def origin_here() -> Origin:
    """Return what this process makes machine code with and for."""
    system, processor, features = cpu_target.target_context.codegen().magic_tuple()
    return Origin(
        python=str(sys.implementation.cache_tag),
        numba=numba.__version__,
        sources=sources_digest(),
        system=system,
        processor=processor,
        features=features,
    )


@cache
def fitting() -> Origin | None:
    """Return where the code that came along is from, if it may run here; otherwise None."""
    found = _described()
    return None if found is None or _difference(found) else found


@cache
def why_unused() -> str:
    """Return why the code that came along is not used; "" if it is, or if none came along."""
    found = _described()
    if found is not None:
        return _difference(found)
    if FOLDER.is_dir():
        return f"the machine code in {FOLDER} is not used: it has no readable {DESCRIPTION}"
    return ""


def _described() -> Origin | None:
    """Return what the description says; None if there is none, or it is damaged."""
    try:
        found = Origin(**json.loads((FOLDER / DESCRIPTION).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if all(isinstance(value, str) for value in found) else None


def _difference(found: Origin) -> str:
    """Return in which way code of this origin does not fit here; "" if it does."""
    here = origin_here()
    compared = [
        ("Python", found.python, here.python),
        ("numba", found.numba, here.numba),
        ("sources", found.sources, here.sources),
        ("system", found.system, here.system),
    ]
    # Whoever names a processor in the environment wants code for that one.
    if getattr(config, "CPU_NAME", None) or not found.needed <= here.needed:
        compared.append(("processor", found.processor, here.processor))
    for what, theirs, ours in compared:
        if theirs != ours:
            return (
                "the machine code that came with neardup is not used: "
                f"it is for {what} {theirs}, and this is {ours}"
            )
    return ""
