"""Figures of cu-hlm and u-hlm from decoded texts: timed texts, numbers, pictures and captions."""
