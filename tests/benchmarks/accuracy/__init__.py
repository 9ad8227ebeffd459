"""Parts of `make bench-accuracy`."""
