"""
The report: a stream of answers in, one page of HTML out. No part of a worker.

    answers ─► tally ─► clusters ─┬────────────────┬─► page (charts, page.html)
                                  └► texts ─► diff ─┘
"""
