"""The command line: each command parses, calls the library, and prints or writes what came back.

Exit codes: 0 done, 1 a level asked for is not reached, 2 bad usage or input, 130 interrupted. Results go to stdout,
progress and errors to stderr. Whatever is slow to import is imported by the command that needs it.
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
    help="Release a table k-anonymous, and be able to prove it.",
    epilog="Start with [bold]shoal demo[/bold], or with your own file: [bold]shoal inspect people.csv[/bold]",
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of ``shoal``."""
    if hasattr(signal, "SIGPIPE"):
        # `shoal … | head` ends us silently, as it does other tools; results are printed after all files are written.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(run())


def run(args: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code; bad input is told in one sentence on stderr."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", GuaranteeWarning)
            warnings.showwarning = _show_warning
            code = app(args, prog_name="shoal", standalone_mode=False)
        if code == 130:
            _say("interrupted, and nothing was left half written.")
        return int(code or 0)
    except GuaranteeError as error:
        return _say(str(error), 1)
    except ShoalError as error:
        return _say(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted, and nothing was left half written.", 130)
    except MemoryError:
        return _say("There is not enough memory for this table: take fewer columns, or a larger machine.", 2)
    except OSError as error:
        return _say(f"{error.filename or 'A file'} cannot be used ({error.strerror}): check it, and the space left.", 2)
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
    # Models that are trained in threads change the filters of all of them: what was ignored may come here nevertheless.
    if issubclass(category, GuaranteeWarning):
        _say(f"warning: {message}")


def _usage_error(error: Any) -> str:
    """What typer complains of, in one sentence that says where to read more."""
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
