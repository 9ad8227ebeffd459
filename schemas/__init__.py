"""
The wire format: what goes over Kafka, as pydantic models, JSON Schema files and examples.

    documents              document.py      a captured page goes in
    verdicts               verdict.py       one answer for every document comes out
    documents.dead-letter  dead_letter.py   messages that could not be judged, with the reason

And over HTTP:

    /v1/seen               ask.py           whether a worker has seen a document; ask.openapi.json

`python -m schemas` writes the *.schema.json files and ask.openapi.json. For speed, the worker
decodes messages without the models. Tests check that both give the same answer for every input.
"""
