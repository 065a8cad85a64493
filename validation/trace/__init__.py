"""Stored logits: format, writer, journal, reader."""
