"""Measure and draw decoded texts in cu-hlm and u-hlm: latency, numbers, pictures and captions."""
