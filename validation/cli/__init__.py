"""The command line: commands, output, errors, exit codes."""
