"""Run one command line in this process, and recognise a refusal."""

from pathlib import Path

from click.testing import CliRunner, Result

from validation.cli.commands import main


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def one_sentence(result: Result, *said: str) -> None:
    """Assert a refusal with code 2 and a message; an uncaught exception would be code 1."""
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.output.count("Error: ") == 1
    assert "Traceback" not in result.output
    for words in said:
        assert words in result.output
