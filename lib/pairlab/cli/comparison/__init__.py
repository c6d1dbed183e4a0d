"""Commands that hold stored runs against each other."""
