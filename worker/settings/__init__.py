"""
Every setting of neardup and every key of the definition, with unit, default, bounds and reason: one
frozen model, made once at the start.

    declaration.py    how a setting is declared
    connection.py     the cluster, the group, the topics
    kafka.py          Kafka's own settings: names, refusals, secrets
    librdkafka.py     which properties librdkafka takes
    batches.py        sizes and times of the pipeline
    definition.py     what decides verdicts, a file of its own
    operation.py      the definition's file, state on disk, metrics, questions, logs
    model.py          all of them in one model, and the checks across them
    writing.py        a setting as a flag, in a command, in the environment, in a file
    loading.py        flags, environment, file and defaults merged, with the origin of each value
"""

from worker.settings.batches import MESSAGE_BYTES_MAX, OVERHEAD_BYTES_MAX
from worker.settings.connection import TOPICS
from worker.settings.declaration import FORMER, bounds_of, default_of, unit_of
from worker.settings.definition import DefinitionSettings
from worker.settings.kafka import in_clear, is_secret
from worker.settings.loading import LoadedSettings, in_definition, load_definition, load_settings
from worker.settings.model import DECIDING, SETTINGS, Settings
from worker.settings.writing import (
    CONFIG_VARIABLE,
    ENV_PREFIX,
    command,
    env_name,
    environment,
    flag_name,
    toml_key,
    toml_lines,
    toml_value,
)

__all__ = [
    "CONFIG_VARIABLE",
    "DECIDING",
    "ENV_PREFIX",
    "FORMER",
    "MESSAGE_BYTES_MAX",
    "OVERHEAD_BYTES_MAX",
    "SETTINGS",
    "TOPICS",
    "DefinitionSettings",
    "LoadedSettings",
    "Settings",
    "bounds_of",
    "command",
    "default_of",
    "env_name",
    "environment",
    "flag_name",
    "in_clear",
    "in_definition",
    "is_secret",
    "load_definition",
    "load_settings",
    "toml_key",
    "toml_lines",
    "toml_value",
    "unit_of",
]
