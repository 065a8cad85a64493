"""Figures and tables that are in no paper."""
