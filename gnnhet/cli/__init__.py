"""The command line: `gnnhet COMMAND`. Bad input ends with one line on stderr and exit code 2."""

from gnnhet.cli.main import main

__all__ = ["main"]
