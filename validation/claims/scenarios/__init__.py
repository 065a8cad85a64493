"""Simulated instances for the claims that need no language model: one module a field, each with ``INSTANCES``."""
