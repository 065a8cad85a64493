"""Simulated instances of the claims that need no language model; each module defines ``INSTANCES``."""
