"""The command line: its commands, their options and their output."""

from renyi.cli.process import main

__all__ = ["main"]
