"""The fast paths of the rules for k: one sort and bisection, and a scan that skips; the plain rules compute every k.

``tails``: the smallest k with Δ_k below a limit, for many distributions at once. ``pairs``: the smallest k whose
distortion is within a tolerance, for one pair of distributions. The tests compare both with every k on its own. At
V = 32,000 the first takes half the time of Δ_k for all k, and little more than the sort. The second computes a few
dozen distortions; a scan computes thousands.
"""
