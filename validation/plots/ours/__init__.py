"""Figures and tables that are in none of the five papers."""
