"""Parts that several papers share: the record, the style, CSV values, and samples of skipping, truncation, texts."""
