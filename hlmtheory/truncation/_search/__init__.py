"""The fast paths of the rules for k: ``tails`` for many distributions at once, ``pairs`` for one pair with skips."""
