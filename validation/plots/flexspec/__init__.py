"""Figures and tables of flexspec, from its printed numbers and from decoded texts."""
