"""Parts of `make bench-fingerprint`."""
