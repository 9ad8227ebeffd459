"""
Near-duplicates in a data frame, cell by cell as in a notebook: python data_frame.py articles.csv

The file has the columns url, fetched_at and text, and as many others as you like.
"""

# %%
import sys

import neardup
import pandas as pd

frame = pd.read_csv(sys.argv[1]).dropna(subset=["text"])
found = neardup.Deduplicator()

# %% One verdict a row, in the order of the rows.
verdicts = list(found.add_many(frame))
frame["verdict"] = [verdict.outcome.value for verdict in verdicts]
frame["doc_id"] = [verdict.doc_id for verdict in verdicts]
frame["original"] = [verdict.duplicate_of and verdict.duplicate_of.original.url for verdict in verdicts]
frame["similarity"] = [verdict.duplicate_of.similarity if verdict.duplicate_of else None for verdict in verdicts]
print(frame.groupby("verdict").size())

# %% What to keep, and who copied whom.
kept = frame[frame.verdict != "duplicate"]
kept.to_csv("kept.csv", index=False)
print(frame[frame.verdict == "duplicate"][["url", "original", "similarity"]].to_string(index=False))

# %% The articles most like one, however far.
for near in found.nearest(frame.text.iloc[0], count=3):
    print(f"{near.similarity:.3f}  {near.original.url}")

# %% Tomorrow's articles are judged against today's: neardup.Deduplicator.load("articles.ndsnap")
found.save("articles.ndsnap")
