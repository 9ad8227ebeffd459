"""
The report: a stream of answers in, one page of HTML out. No part of a worker.

    answers.py ─► tally.py ─► page.py, page.html, page.css
"""
