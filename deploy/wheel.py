"""
Hatch's hook: puts machine code into a wheel if MACHINE_CODE names a folder that
`python -m worker.devkit.machine_code` wrote, as `make wheel` does.

Such a wheel is for one version of Python, one system and one version of numba. Its tag says so, and
its requirements: any other numba would compile everything again. The processor is in no tag; it is
checked where the code is loaded (worker/core/carried.py). Any other wheel is pure Python.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MachineCodeHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Add the folder, the tag and the requirement to what is built."""
        folder = os.environ.get("MACHINE_CODE")
        if not folder:
            return
        origin = json.loads((Path(folder) / "machine_code.json").read_text("utf-8"))
        if origin["python"] != sys.implementation.cache_tag:
            raise ValueError(
                f"the machine code in {folder} is for {origin['python']}, and this is "
                f"{sys.implementation.cache_tag}: build the wheel with the Python that made it"
            )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["dependencies"].append(f"numba=={origin['numba']}")
        build_data["force_include"][str(Path(folder).absolute())] = "worker/core/machine_code"
