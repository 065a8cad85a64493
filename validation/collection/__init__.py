"""Logits of a pair on prompts, collected or imported."""
