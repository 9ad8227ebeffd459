"""
Every setting of neardup, with its unit, default, bounds and reason: one frozen model, made once at
the start.

    declaration.py    how a setting is declared
    connection.py     the cluster, the group, the topics, security
    batches.py        sizes and times of the pipeline
    engine.py         what decides verdicts
    operation.py      state on disk, metrics, questions, logs
    model.py          all of them in one model, and the checks across them
    writing.py        a setting as a flag, in the environment, in a file
    loading.py        flags, environment, file and defaults merged, with the origin of each value
"""

from worker.settings.batches import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX
from worker.settings.connection import KAFKA_OPTIONS_REFUSED, TOPICS
from worker.settings.declaration import bounds_of, default_of, unit_of
from worker.settings.engine import EngineSettings
from worker.settings.loading import LoadedSettings, load_settings
from worker.settings.model import DECIDING, Settings
from worker.settings.writing import (
    CONFIG_VARIABLE,
    ENV_PREFIX,
    env_name,
    flag,
    flag_name,
    toml_value,
    written,
)

__all__ = [
    "CONFIG_VARIABLE",
    "DECIDING",
    "ENV_PREFIX",
    "KAFKA_OPTIONS_REFUSED",
    "MESSAGE_BYTES_MAX",
    "OVERHEAD_BYTES_MAX",
    "TOPICS",
    "EngineSettings",
    "LoadedSettings",
    "Settings",
    "bounds_of",
    "default_of",
    "env_name",
    "flag",
    "flag_name",
    "load_settings",
    "toml_value",
    "unit_of",
    "written",
]
