"""The command line: what is shown, how errors are told, exit codes."""
