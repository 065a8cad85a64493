"""Measure and draw uncertainty and skipping in cu-hlm and u-hlm: a sample of drafts, numbers, pictures and captions."""
