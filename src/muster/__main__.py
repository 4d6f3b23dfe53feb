"""`python -m muster`: the command, for who has its Python rather than its folder in PATH."""

from muster.cli.main import main

if __name__ == "__main__":
    main()
