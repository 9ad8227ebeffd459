"""
The tables of the index: how fingerprints lie in memory, and the kernels that find, insert and
remove them.

    memory    what kernels get in place of an index: where everything lies, by name
    buckets   buckets of entries, and how one gets room from its neighbours
    columns   a column that grows and shrinks in place
    store     the buckets' columns, made longer or cut; what both engines have
    confirm   candidates by rank -> sketches -> the best match

    The exact engine, from the bottom up
    prefixes  fingerprint -> filter, and bucket in each table and sub-table
    rings     slots with equal fingerprints, of which the tables name only one
    within    buckets -> candidates: all within a distance, or the best
    slots     how a fingerprint comes into slots and tables, and leaves them
    exact     the kernels that Python calls, and the columns

    The directed engine, from the bottom up
    doubts         the doubts by row, in chunks
    entries        fingerprint <-> bucket and filter; how a row is entered, found and taken out
    patterns       doubtful bits of a block -> the likeliest patterns by which a copy differs
    scan           a probe's bucket: its lines are asked for, its entries compared
    turns          fingerprint, doubts -> the likeliest prefixes, made some queries ahead
    second_look    fingerprints and doubts of two documents -> the rank of a candidate
    equal          exact copies, which are found before the search
    directed       the search of one query, the kernel that Python calls, and the columns
    parts          rows that are searched together, their candidates, and which of them meet
    sorted_probes  the search of many rows, whose probes are sorted by bucket
    parallel       rows are searched at once, by several threads too, then settled in their order

**The idea.** Each table is keyed by some bits of the fingerprint, its prefix, and has an entry for
each original: a filter, which is more bits of the fingerprint, and a reference. The entries of a
bucket stand side by side, so a search reads a few cache lines of filters in each bucket and goes
elsewhere only where a filter is near. A search costs its cache misses and its wrongly predicted
branches; arithmetic is nearly free.

A directed entry has all bits of the fingerprint, and refers to the original's row; only the doubts
lie elsewhere, by row. An exact entry has half of the bits and refers to a slot, where the
fingerprint and the row lie in dense columns.

**What always holds.** Each original has one entry in each table that lists it (exact: each ring of
equal fingerprints has one). Buckets lie in the order of their numbers and don't overlap. The
entries of a directed bucket ascend by row, at most `prefix_max` of a prefix: those listed at birth.
The slots of an exact index are dense: the last one moves into a gap. `check()` asserts all of this.
Answers depend on none of it: neither on the number of buckets nor on where an entry lies.

**Bytes of an original**, directed, four blocks of 16 bits, 10 M originals, random fingerprints:

    entries, four of 10      40.0
    places kept free          4.2    of 2 to 6, by how long ago the columns have grown
    heads of the buckets      0.2
    doubts                    8.0
    in all                   52.4

With columns of fingerprints and rows, and with more free places, it was 66.2.

**How kernels see it.** A kernel gets one block of named numbers, `memory.TableMemory`, that says
where everything lies. Nothing checks an address; whoever makes a column makes it longer than a
vector can reach. A kernel never makes a column longer: it stops where there is no room for one
more, and `maintain` makes it between two calls.

**What was tried, and what it gave.** Processor time of a query of the directed search, in µs: four
blocks of 16 bits, 32 patterns, documents that have no original, 500 a call, one core (Zen 5).

    step                                                         100 k     1 M    10 M
    patterns made by loops, a branch for each 16 entries           3.1     4.6    17.2
    patterns read from a table, vectors without branches,
    references read later, no division, heads in huge pages        1.1     2.3    11.6

- The lines of a bucket asked for exactly, and its last round ending with it; before, one in two
  buckets of 24 to 56 entries had a line that nobody had asked for: with 64 patterns 9.7 -> 6.4 µs
  at 3 M. With that, and long buckets asked for 26 probes ahead instead of 256, 20.3 -> 14.0 µs at
  10 M (the quickest calls, in turn).
- 260 lines of long buckets prefetched instead of 400: 2 to 4 % less at 10 M (AVX-512: 1 to 2),
  2 % at 4.5 M, none at 6 M. A query reads 240 KB at 10 M in 15 µs, four fifths of what one core
  can read in order.
- Probes of short buckets in chunks of eight, first asked for, then compared, so that either loop
  keeps what it needs in registers; 110 lines asked for ahead, into the first level of the cache,
  where it was a whole query into the second; buckets of 32 to 56 entries read no further than they
  reach. With 64 patterns a document took .78 of the time at 1 M, .58 at 1.25 M, .82 at 2 M.
- Vectors that end with the bucket for shorter ones, too: a third fewer lines, and yet a fifth
  slower at 1 M, since they wait for the bucket's head. Long buckets in chunks, or asked for into
  the first level: 10 to 30 % slower at 10 M. References read a table later still: nothing.
- Pages of several buckets asked for together before their lines: nothing at 10 M, a fifth slower at
  1 M. References not asked for: 5 % less at 10 M, 6 % more at 1 M.
- Asking for one cache line too few of each bucket: 3.9 µs at 1 M instead of 2.0. What is compared
  behind a short bucket's end must have been asked for, although nothing of it counts.
- Functions of the search that are called and not inlined: 2.0 µs at 100 k instead of 1.4. A call
  hands over each address of a `View` on the stack. One for the rounds after a bucket's first saves
  registers as long as vectors, too: 28 % slower at 10 M.
- A loop over the vectors of a bucket: 1.2 µs at 100 k instead of 1.1, by the branches of its
  unrolling.
- Blocks of 32 entries as three vectors of 16-bit numbers: 10 % at 10 M, none at 1 M, and an
  insertion moves whole blocks.
- The directed engine for exact search: twice the time at 1 M, and a quarter more memory (see
  `exact`).
- Numbers of the block by place, `memory[at + HEADS]`, where they have names now: the same loads.
  Old and new in turn, exact and directed, 200 k and 1 M originals: queries .97 to 1.06 of the time
  (200 k) and .88 to .98 (1 M), insertions .96 to .99, deletions .88 to 1.02: a record is handed
  over in one word, an array in seven. But Python reads a field of numpy's record in 2 µs: with
  those, `maintain` took 128 µs instead of 5 and exact insertion 1.26 times as long. And numba needs
  7 µs to know the type of a record that is handed to a kernel, .4 for an array of one.
- Rows of 4 bytes in sorted tables instead of entries: 36 B each, and 1,950 random reads a query at
  1 M.

**Other structures, and why they are not these.** Processor time on a loaded machine, so only the
ratios say something. The hash table and the sort were measured in turn with what would take their
place; chunks of a log and of doubts against one `MappedColumn` once each, in one process; rings in
two processes side by side.

    structure              in place of it                what it would cost
    `hash_table`           an exact index with k = 0     finding 3.6 times, inserting 1.7 times as
                                                         long, 58 B a row instead of 10 (200 k rows)
    radix sort of `pairs`  numpy's sort                  5.6 times as long per table (200 k numbers
                                                         with one order already, as they come there)
    chunks of a log's      one `MappedColumn`            39 ms for one more row while a snapshot
    column                                               looks at 64 MB, .1 ms in chunks
    chunks of `doubts`     one `MappedColumn`            4.6 ms when the first of ten chunks leaves,
                                                         .1 ms in chunks
                           a log's `ChunkedColumn`      2.2 times as long to make room for the next
                                                         1,000 rows; 800 MB instead of 4 with only
                                                         the rows 5 and 100 M, 84 instead of 17 when
                                                         one row of the oldest of ten chunks stays
    `rings`                an entry in each table for    a query 150 times as long, and an insertion
                           each equal fingerprint        100 times, with 20,000 copies of one among
                                                         100,000, if 1 of 100 documents is near it

One more kind of table is made once and only read (`kernels/two_slots.py`).
"""
