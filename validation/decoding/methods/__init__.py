"""Decoding methods: classes that make the decisions of the generation loop, each with its entry above it.

:mod:`validation.decoding.methods.registry` says how entries are read, ``catalogue`` lists them. A method's names are in
``rows``, which imports no method.
"""
