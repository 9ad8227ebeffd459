"""
Kafka: the one package that talks to the client library. Its errors leave here as ours.

    configuration  what each client is made with
    client         errors, questions asked again, batches that cannot be read
    consumer       the source, as a member of the group
    log            the ordered log: follow, append
    publisher      answers and offsets in one transaction
    reader         offsets and messages from outside the group; the producer that feeds documents
    feeding        documents of files, fed into their topic
    admin          asks for topics and cluster, and changes them
    topics         what the topics must be, and what is wrong with those that exist
"""
