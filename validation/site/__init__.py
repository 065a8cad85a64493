"""The documentation as a site: pages written by hand, theory from the claim records, API from the docstrings.

``pages`` says which files become pages and points their links; ``theory`` writes a page for each topic from the claims,
``interface`` one for each module from its public names; ``build`` puts the sources together and runs Sphinx.
"""
