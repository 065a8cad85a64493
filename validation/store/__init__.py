"""How a trace lies on disk: zarr checked against a journal, so that no crash or flipped byte goes unseen."""
