"""The documentation as a site: pages written by hand, theory from the claim records, API from the docstrings."""
