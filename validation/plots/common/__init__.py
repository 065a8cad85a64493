"""Parts that several papers share: records, style, CSV values, and samples for skipping, truncation and texts."""
