"""`python -m neardup`: the command `neardup`."""

import neardup  # noqa: F401  # binds the name `worker`
from worker.__main__ import main

main()
