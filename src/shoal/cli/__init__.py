"""The command line: each command parses its options, calls the library, and prints or writes the results.

Exit codes: 0 success, 1 a requested level is not reached, 2 invalid usage or input, 130 interrupted. Results go to
stdout, progress and errors to stderr. Each command imports the slow packages that it needs.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from shoal import __version__
from shoal.cli import models, overview, releases
from shoal.errors import GuaranteeError, GuaranteeWarning, ShoalError

app = typer.Typer(
    help="Release k-anonymous tables with evidence, and audit machine learning models for privacy leaks.",
    epilog="Start with [bold]shoal demo[/bold], or with your own file: [bold]shoal inspect people.csv[/bold]",
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)


INTERRUPTED = "interrupted; no partial files were left behind."


def main() -> None:
    """Run the program ``shoal``."""
    if hasattr(signal, "SIGPIPE"):
        # `shoal … | head` ends the program silently; results are printed after all files are written.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(run())


def run(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; report invalid input in one sentence on stderr."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", GuaranteeWarning)
            warnings.showwarning = _show_warning
            code = app(args, prog_name="shoal", standalone_mode=False)
        if code == 130:
            _say(INTERRUPTED)
        return int(code or 0)
    except GuaranteeError as error:
        return _say(str(error), 1)
    except ShoalError as error:
        return _say(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return _say(INTERRUPTED, 130)
    except MemoryError:
        return _say("There is not enough memory for this table: use fewer columns, or a larger machine.", 2)
    except OSError as error:
        return _say(f"{error.filename or 'A file'} cannot be used ({error.strerror}): check it and the disk space.", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _say(_usage_error(error), 2)


def _say(sentence: str, code: int = 0) -> int:
    print("shoal:", " ".join(sentence.split()), file=sys.stderr)
    return code


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    # Models that are trained in threads change the filters of all threads, so ignored warnings may still arrive here.
    if issubclass(category, GuaranteeWarning):
        _say(f"warning: {message}")


def _usage_error(error: Any) -> str:
    """Return the message of a usage error as one sentence that names the help."""
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "shoal"
    message = error.format_message().replace("Value error, ", "").replace(". Did you mean ", ", perhaps ")
    return f"{message.rstrip('.? ')}; see '{command} --help'."


def _print_version(asked: bool) -> None:
    if asked:
        print(f"shoal {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


for _command in (
    releases.inspect,
    releases.anonymize,
    releases.check,
    models.protect,
    models.train,
    models.clean,
    models.audit,
    models.frontier,
    overview.studio,
    overview.methods,
    overview.datasets,
    overview.demo,
):
    app.command()(_command)
