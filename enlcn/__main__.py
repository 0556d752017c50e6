"""`python -m enlcn`: the same as the `enlcn` program."""

from enlcn.cli import main

main()
