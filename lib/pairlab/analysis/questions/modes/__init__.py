"""What containers cost on one host: the networking modes of paper S, and CPU and memory beside the network."""
