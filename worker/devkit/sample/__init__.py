"""
The synthetic crawl: language -> article -> site -> crawl. No clock, no file but the word lists.
"""
