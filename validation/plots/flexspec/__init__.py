"""flexspec: its figures and tables, from its printed numbers and from decoded texts."""
