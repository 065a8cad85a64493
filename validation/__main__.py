"""``python -m validation``: the command line."""

from validation.cli.start import main

if __name__ == "__main__":
    main()
