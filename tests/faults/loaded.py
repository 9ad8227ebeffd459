"""
Imported by the process that workers are forked from: it loads the kernels, which takes 0.5 s, for
all of them.
"""

from worker.settings import Settings
from worker.shell.runtime import kernels

kernels.ready(Settings())
