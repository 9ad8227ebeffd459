"""
The tables of the index: how fingerprints lie in memory, and the kernels that find, insert and
remove them.

    store     buckets of entries, and how one gets room from its neighbours; slots; growing columns
    confirm   candidates by rank -> sketches -> the best match
    exact     fingerprint -> prefix in each table -> buckets -> candidates; all within a distance
    patterns  doubtful bits of a block -> the likeliest patterns by which a copy differs
    directed  fingerprint, doubts -> the likeliest prefixes -> buckets -> second look -> candidates
    parallel  the same by several threads: rows are searched at once, then settled in their order

**The idea.** An original has a slot: its fingerprint, its row and what else is compared, in dense
columns. Each table is keyed by some bits of the fingerprint, its prefix, and has an entry per slot:
a filter, which is more bits of the fingerprint, and a reference to the slot. The entries of a
bucket stand side by side, so a search reads a few cache lines of filters in each bucket and goes to
a slot only where a filter is near. A search costs its cache misses and its wrongly predicted
branches; arithmetic is nearly free.

**What always holds.** Each slot has one entry in each table (exact: each ring of equal fingerprints
has one). Buckets lie in the order of their numbers and don't overlap. The entries of a directed
bucket ascend by row, so that the first `prefix_max` are the earliest originals. The slots are
dense: the last one moves into a gap. `check()` asserts all of this. Answers depend on none of it:
neither on the number of buckets nor on where an entry lies.

**How kernels see it.** A kernel gets one block of numbers, `Memory`, that says where everything
lies. Nothing checks an index or an address; whoever makes a column makes it longer than a vector
can reach. A kernel never makes a column longer: it stops where there is no room for one more, and
`maintain` makes it between two calls.

**What was tried, and what it gave.** Processor time of a query of the directed search, in µs: four
blocks of 16 bits, 32 patterns, documents that have no original, 500 a call, one core (Zen 5).

    step                                                         100 k     1 M    10 M
    patterns made by loops, a branch for each 16 entries           3.1     4.6    17.2
    patterns read from a table, vectors without branches,
    references read later, no division, heads in huge pages        1.1     2.3    11.6

- Asking for one cache line too few of each bucket: 3.9 µs at 1 M instead of 2.0. What is compared
  behind a short bucket's end must have been asked for, although nothing of it counts.
- Functions of the search that are called and not inlined: 2.0 µs at 100 k instead of 1.4. A call
  hands over each address of a `View` on the stack.
- A loop over the vectors of a bucket: 1.2 µs at 100 k instead of 1.1, by the branches of its
  unrolling.
- Blocks of 32 entries as three vectors of 16-bit numbers: 10 % at 10 M, none at 1 M, and an
  insertion moves whole blocks.
- Probes sorted by bucket over many queries: no gain below 4,000 queries a call.
- The directed engine for exact search: twice the time at 1 M, and a quarter more memory (see
  `exact`).
- Rows of 4 bytes in sorted tables instead of entries: 36 B each, and 1,950 random reads a query at
  1 M.
"""
