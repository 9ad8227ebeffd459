"""
The definition once more, compiled. Each step has a file, and `fingerprint.py` fuses them. The
results equal those of the plain Python bit for bit.
"""
