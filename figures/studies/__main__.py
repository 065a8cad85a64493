"""Run a study by its name: ``hlm study NAME WORDS``."""

import sys
from importlib import import_module

import click

from figures.studies.kit import MAIN


def main() -> None:
    name = sys.argv[1]
    if name in ("-h", "--help"):
        print(f"\nStudies: {', '.join(MAIN)}.")
        return
    if name not in MAIN:
        raise click.BadParameter(f"{name!r} is none of the studies that can run: {', '.join(MAIN)}.")
    script = import_module(f"figures.studies.{name}.{MAIN[name]}")
    sys.argv = [str(script.__file__), *sys.argv[2:]]
    script.main()


if __name__ == "__main__":
    main()
