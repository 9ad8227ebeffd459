"""
The tables of the index: how fingerprints lie in memory, and the kernels that find, enter and remove them.

    words     the block that kernels are given: where everything is
    store     buckets of entries, and how one gets room from its neighbours
    search    fingerprint -> buckets -> candidates -> the best match
    rings     equal fingerprints, entered once
    placing   into every table, and out again
    judging   the kernels that Python calls
    columns   memory that grows and shrinks in place
    maintenance  a bucket store is made longer before it is full
    slots     all of an index but its tables, for either search
    content   all of an exact index, between the kernels and `PermutedIndex`

and of the directed index, on the same store:

    patterns  fingerprint, doubts -> probes
    earliest  buckets whose earliest entries stand first
    directed  probes -> buckets -> candidates -> second look -> the best match
    directing the kernels that Python calls
    directed_content   all of a directed index, between the kernels and `DirectedIndex`
"""
