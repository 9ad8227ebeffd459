"""
The definition again, compiled: one file a step, all fused by `batch`. Equal to the plain Python bit
for bit.
"""
