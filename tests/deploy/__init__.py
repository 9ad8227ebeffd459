"""
`make test-deploy`: what is deployed, built and run. No part of `make test`: it takes minutes, and
wants root.
"""
