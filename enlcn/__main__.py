"""The program `enlcn`, and `python -m enlcn`: signals are heeded first, then comes what takes time to import."""

from enlcn import interruption


def main() -> None:
    """Entry point of the program."""
    interruption.install()
    from enlcn.cli import main as run

    run()


if __name__ == "__main__":
    main()
