"""How the interpreter serves the worker's threads: handed over in time, and no collection of what lives for ever."""

from __future__ import annotations

import gc
import sys

_SWITCH_INTERVAL_S = 0.000_5
_ALLOCATIONS = 200_000  # containers made and not freed before the youngest generation is looked through


def tune() -> None:
    """
    Prepare the interpreter for the worker's threads; call it once, when everything that stays has been made.

    A thread that comes back from Kafka waits up to the switch interval for the one that decodes: at the default of
    5 ms, several times a batch, that is most of a batch's time. The garbage collector would look again and again
    through the modules, the kernels and the tables, which hold no garbage; batches leave none in cycles.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, 20, 100)
