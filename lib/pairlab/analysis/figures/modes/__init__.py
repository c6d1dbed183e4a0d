"""What containers cost on one host, in the forms of paper S' figures 1 and 3."""
