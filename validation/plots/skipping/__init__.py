"""cu-hlm and u-hlm on uncertainty and skipping, from a trace."""
