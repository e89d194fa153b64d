"""`prunecast` and `python -m prunecast`: the command line; Ctrl-C while it is imported ends it like any other."""

import sys


def main() -> None:
    """Import the command line and run it."""
    try:
        from prunecast.cli import main as command
    except KeyboardInterrupt:
        print("prunecast: stopped.", file=sys.stderr)
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
