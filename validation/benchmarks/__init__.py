"""Benchmarks of speed and memory against references measured in the same run."""
