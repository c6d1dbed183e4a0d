"""Communication of several containers together, which wait for each other."""
