"""
Near-duplicates in a data frame, cell by cell as in a notebook: python data_frame.py articles.csv

The file has the columns url, fetched_at and text, and as many others as you like.
"""

# %%
import sys

import neardup
import pandas as pd

frame = pd.read_csv(sys.argv[1])
found = neardup.Deduplicator()

# %% One verdict per row, in the order of the rows; "not-judged" where there is no text.
# Where a column has the name of one of theirs.
frame = frame.join(found.verdicts_frame(frame), lsuffix="_given")
print(frame.groupby("verdict").size())

# %% What to keep, and who copied whom.
kept = frame[frame.stays]
kept.to_csv("kept.csv", index=False)
print(
    frame[frame.verdict == "duplicate"][["url", "original_url", "similarity"]].to_string(
        index=False
    )
)

# %% The articles most like one, however far.
for near in found.nearest(frame.text.iloc[0], count=3):
    print(f"{near.similarity:.3f}  {near.url or near.doc_id}")

# %% Tomorrow's articles are judged against today's: neardup.Deduplicator.load("articles.ndsnap")
found.save("articles.ndsnap")
