"""Decoding: the generation loop, its methods, the studies made with it, and what is computed from their records."""
