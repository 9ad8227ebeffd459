"""
The definition once more, compiled: one file per step, all fused by `batch`. Equal to the plain
Python bit for bit.
"""
