"""The sides of the theorems: what is compared, where no public function computes it."""
