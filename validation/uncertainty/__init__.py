"""Uncertainty baselines: dropout and semantic similarity."""
