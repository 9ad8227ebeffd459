"""
What is done to a group of workers from outside it. Each command has one module; those below serve
several.

    watch.py           `verdicts`, `report`, `explain`, `demo`: answers; `top`: a group at work;
                       one document for mend
    seen_client.py     `ask`: questions to one worker
    verify.py          `verify`: reads all topics, for the audit; also for mend and offsets, and the
                       log alone for mend, renew and rebuild
    mend.py            `verify --mend`: publishes answers that the log has and the topics lack
    offsets.py         `offsets restore`: sets the offsets that the answers prove
    renew.py           `log renew`, `log retire`: a new log from the state of the old one
    rebuild.py         `rebuild`: a second deployment with another definition

    address.py         where a worker answers over HTTP: watch, seen_client
    stopped_group.py   a group without members, whose offsets are looked at: mend, offsets, renew
    audit.py           one answer for every document, which is the log's; no I/O: verify, mend,
                       offsets
      published.py     places and digests of answers
      remains.py       what retention may have deleted
      older_verdicts.py   verdicts without fields that were added later
      new_documents.py    the topic of new documents
"""
