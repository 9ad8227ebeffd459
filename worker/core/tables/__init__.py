"""
The tables of the permuted index: how fingerprints lie in memory, and the kernels that find, enter and remove them.

    words     the block that kernels are given: where everything is
    store     buckets of entries, and how one gets room from its neighbours
    search    fingerprint -> buckets -> candidates -> the best match
    rings     equal fingerprints, entered once
    placing   into every table, and out again
    judging   the kernels that Python calls
    columns   memory that grows and shrinks in place
    care      a bucket store is made longer before it is full
    content   all of an index, between the kernels and `PermutedIndex`
"""
