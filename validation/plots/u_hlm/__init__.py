"""Figures and tables of u-hlm."""
