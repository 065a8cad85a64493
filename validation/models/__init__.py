"""Pairs of a draft and a target model: where they come from, on which device, how long a pass takes."""
