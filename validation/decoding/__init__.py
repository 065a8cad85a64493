"""Decoding: the generation loop, its methods, the studies that use it, and the metrics of their records."""
