"""Load pairs of a draft and a target model, choose their device and time their forward passes."""
