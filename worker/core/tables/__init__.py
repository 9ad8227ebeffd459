"""
The tables of the index: how fingerprints lie in memory, and the kernels that find, enter and remove them.

    store     buckets of entries, and how one gets room from its neighbours; the slots; columns that grow in place
    confirm   candidates by rank -> sketches -> the best match
    exact     fingerprint -> its prefix in each table -> buckets -> candidates; all within a distance
    directed  fingerprint, doubts -> the likeliest prefixes -> buckets -> second look -> candidates
"""
