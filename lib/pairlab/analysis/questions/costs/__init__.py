"""What networks cost in CPU time: paper S, section IV-B."""
