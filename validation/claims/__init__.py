"""Claims checked on traces and on simulated instances."""
