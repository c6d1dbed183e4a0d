"""`python -m pairlab`: the command line."""

from pairlab.cli import main

main(prog_name="pairlab")
