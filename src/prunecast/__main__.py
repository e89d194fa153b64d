"""`python -m prunecast`: the command line, also where its script is not on the path."""

from prunecast.cli import main

main()
