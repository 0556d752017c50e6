"""The program `enlcn`, and `python -m enlcn`: signals are heeded first, then comes what takes time to import."""

import sys

from enlcn import interruption


def main() -> None:
    """Entry point of the program."""
    try:
        interruption.install()
        from enlcn.cli import main as run

        run()
    except KeyboardInterrupt:  # before the command had begun, or after it had ended
        sys.stderr.write("interrupted\n")
        sys.exit(interruption.EXIT_CODE)


if __name__ == "__main__":
    main()
