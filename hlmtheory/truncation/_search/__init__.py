"""The one fast path of the rules for k: search by halves and jumps, where the plain reference looks at every k.

``tails``: the smallest k with Δ_k below a limit, for many distributions at once. ``pairs``: the smallest k whose
distortion is within a tolerance, for one pair of distributions. The tests compare both with every k on its own.
"""
