"""cu-hlm on truncation, from a trace."""
