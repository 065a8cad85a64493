"""The command line: commands, output, errors and exit codes."""
