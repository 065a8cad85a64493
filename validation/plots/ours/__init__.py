"""Figures and tables that no paper draws."""
