"""Imported where workers are forked from: what they compute with is loaded once, for 0.5 s of each start."""

from worker.settings import Settings
from worker.shell.runtime import kernels

kernels.ready(Settings())
