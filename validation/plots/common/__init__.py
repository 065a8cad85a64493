"""What all figures share: the record, the style, the values as CSV."""
