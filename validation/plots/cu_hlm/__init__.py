"""Figures and tables of cu-hlm."""
