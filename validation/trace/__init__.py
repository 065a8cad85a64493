"""Store the logits of a model pair: format, writer, journal, reader."""
