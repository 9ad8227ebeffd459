"""
`python -m worker.devkit.machine_code FOLDER` compiles every kernel for any processor of 2013 and
newer, and writes the machine code into FOLDER. A wheel then carries it (`make wheel`).

The code is for the system and the version of Python that this runs on.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

# LLVM's name of a processor, and each feature that code for it may use. x86-64-v3 is what all
# processors with AVX2 have in common; a 64-bit Arm processor has nothing that can be left out.
PROCESSORS = {
    "x86_64": (
        "x86-64-v3",
        "+avx,+avx2,+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,"
        "+mmx,+movbe,+popcnt,+sahf,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave",
    ),
    "aarch64": ("generic", ""),
}


def write(folder: Path) -> None:
    """
    Copy the machine code that is kept of all kernels into a new folder, and describe there what it
    was made with.
    """
    from worker.core import carried, compiled  # noqa: PLC0415  # `main` has to come before numba

    folder.mkdir(parents=True)
    for path in compiled.kept_files():
        shutil.copy(path, folder)
    description = json.dumps(carried.origin_here()._asdict(), indent=1)
    (folder / carried.DESCRIPTION).write_text(description + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    """Compile all kernels into an empty cache, for any processor, and write their code."""
    machine = platform.machine()
    if machine not in PROCESSORS:
        sys.exit(f"neardup carries machine code for {' and '.join(PROCESSORS)}, not for {machine}")
    processor, features = PROCESSORS[machine]
    with TemporaryDirectory() as cache:
        # numba reads its variables when it is loaded.
        os.environ["NUMBA_CPU_NAME"] = processor
        os.environ["NUMBA_CPU_FEATURES"] = features
        os.environ["NUMBA_CACHE_DIR"] = cache
        from worker.settings import Settings  # noqa: PLC0415
        from worker.shell.runtime import kernels  # noqa: PLC0415

        kernels.ready(Settings(), everything=True)
        shutil.rmtree(folder, ignore_errors=True)
        write(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
