"""How long it takes until a container answers: paper S, table VI."""
