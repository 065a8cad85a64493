"""Figures of cu-hlm and u-hlm on uncertainty and skipping: a sample of drafts, numbers, pictures and captions."""
