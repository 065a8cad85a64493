"""u-hlm: its figures and tables."""
