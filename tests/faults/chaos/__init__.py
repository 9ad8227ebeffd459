"""
Random faults over a random crawl on three brokers, each run a pure function of its seed: `make
chaos`.
"""
