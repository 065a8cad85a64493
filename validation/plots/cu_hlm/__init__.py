"""cu-hlm: its figures and tables."""
