"""Run the command line as ``python -m renyi``."""

from renyi.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
