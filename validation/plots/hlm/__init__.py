"""cu-hlm and u-hlm from decoded texts."""
