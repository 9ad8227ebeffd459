"""
Near-duplicates in a data frame, cell by cell as in a notebook: python data_frame.py articles.csv

The file needs the columns url, fetched_at and text, and may have others.
"""

# %%
import sys

import neardup
import pandas as pd

if len(sys.argv) < 2:
    sys.exit(__doc__)
frame = pd.read_csv(sys.argv[1])
found = neardup.Deduplicator()

# %% One verdict per row, in the order of the rows; "not-judged" for a row without text. If your
# frame already has a column with the name of a verdict's column, yours gets the suffix _given.
frame = frame.join(found.verdicts_frame(frame), lsuffix="_given")
print(frame.groupby("verdict").size())

# %% The kept rows, and the duplicates with their originals.
kept = frame[frame.stays]
kept.to_csv("kept.csv", index=False)
print(
    frame[frame.verdict == "duplicate"][["url", "original_url", "similarity"]].to_string(
        index=False
    )
)

# %% The articles that are most similar to one, at any distance.
for near in found.nearest(frame.text.iloc[0], count=3):
    print(f"{near.similarity:.3f}  {near.url or near.doc_id}")

# %% Save the state. To judge tomorrow's articles against today's, begin with
# neardup.Deduplicator.load("articles.ndsnap").
found.save("articles.ndsnap")
