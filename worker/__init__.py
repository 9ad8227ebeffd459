"""
neardup: near-duplicate detection on a live crawl. The library is `import neardup`, the command is
`neardup`.
"""
