"""
What `make bench-stream` is made of: the corpus, the contenders, how they are driven and how the
table is written.
"""
