"""Collect the logits of a model pair on prompts, or import them from files."""
