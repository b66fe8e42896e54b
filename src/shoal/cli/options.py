"""Options that several commands share, as annotated types and dataclasses, and the parsers of their values.

The module imports no heavy package before a command runs: ``shoal --help`` must stay fast.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin, get_type_hints

import typer

from shoal.cli.startup import import_sklearn
from shoal.errors import ShoalError
from shoal.privacy.base import LevelOption, PrivacyModel
from shoal.privacy.models import MODELS

if TYPE_CHECKING:
    import polars

    from shoal.data.schema import Schema


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def whole(text: str) -> int:
    """Parse a whole number."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def size(text: str) -> int:
    """Parse an amount of memory, in bytes.

    >>> size("1.5GB"), size("512 MiB"), size("100")
    (1500000000, 536870912, 100)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)(i?)b?\s*", text.lower())
    try:
        assert found is not None
        return int(float(found[1]) * (1024 if found[3] else 1000) ** " kmgt".index(found[2] or " "))
    except (AssertionError, ValueError):
        raise typer.BadParameter(f"{text!r} is not a size such as 4GB") from None


def show_size(n_bytes: int) -> str:
    """Format an amount of memory.

    >>> show_size(12_400_000_000)
    '12.4 GB'
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"


def names_of(text: str) -> list[str]:
    """Split names at commas: ``"forest, mlp"`` becomes a list."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise typer.BadParameter(f"{text!r} contains no name")
    return names


_model = partial(typer.Option, rich_help_panel="Privacy models")
_reading = partial(typer.Option, rich_help_panel="Reading")


class Levels:
    """Requested privacy models besides k-anonymity; the models describe their options."""

    def __init__(self, members: str | None, sensitive: str | None, **given: Any) -> None:
        self.members, self.sensitive, self._given = members, sensitive, given

    @staticmethod
    def parameters() -> list[inspect.Parameter]:
        """Return the options as parameters of a command."""
        found = []
        for model in MODELS.values():
            hints = get_type_hints(model)
            found += [_level_parameter(option, hints[option.field]) for option in model.options]
        about = " and ".join(model.name for model in MODELS.values() if model.about_population)
        members = _model(metavar="COLUMN", help=f"For {about}: column that is true in released rows.")
        sensitive = _model(metavar="NAME", help="Sensitive attribute to protect; by default all of them.")
        return [*found, _parameter("members", str, members), _parameter("sensitive", str, sensitive)]

    def constraints(self, k: int | None) -> list[PrivacyModel]:
        """Return the requested models without k-anonymity."""
        self._require_company()
        asked = [self._make(model, k) for model in MODELS.values() if self._given_of(model.levels_asked())]
        if self.sensitive is not None and not any(model.about_sensitive for model in asked):
            raise ShoalError(f"--sensitive {self.sensitive} needs a model that protects it: add --l, --t or another.")
        return asked

    def _make(self, model: type[PrivacyModel], k: int | None) -> PrivacyModel:
        values = {option.field: option.default for option in model.options if option.default is not None}
        values |= {option.field: value for option, value in self._given_of(model.options)}
        return model.from_options(values, self.members if model.about_population else self.sensitive, k)

    def _given_of(self, options: Sequence[LevelOption]) -> list[tuple[LevelOption, Any]]:
        given = [(option, self._given[option.parameter]) for option in options]
        return [(option, value) for option, value in given if value is not None]

    def _require_company(self) -> None:
        """Refuse options that have no effect without another one."""
        for model in MODELS.values():
            asking = model.levels_asked()
            for option, value in self._given_of(model.options):
                needed = None if self._given_of(asking) else " or ".join(one.flag for one in asking)
                if model.about_population and self.members is None:
                    needed = "--members, the column that says which rows are released"
                if needed is not None:
                    raise ShoalError(f"{option.flag} {value} needs {needed}: add it, or leave {option.flag} out.")
        of_population = [model.levels_asked() for model in MODELS.values() if model.about_population]
        if self.members is not None and not any(self._given_of(asking) for asking in of_population):
            needed = " or ".join(" and ".join(option.flag for option in asking) for asking in of_population)
            raise ShoalError(f"--members {self.members} needs {needed}: add one.")


def _level_parameter(option: LevelOption, hint: Any) -> inspect.Parameter:
    details: dict[str, Any] = (
        {"metavar": "KIND"} if get_origin(hint) is Literal else {"parser": whole if hint is int else number}
    )
    return _parameter(option.parameter, hint, _model(option.flag, help=option.help, **details))


def _parameter(name: str, hint: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[hint | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_guide = partial(typer.Option, rich_help_panel="Guide")


Source = Annotated[Path, typer.Argument(metavar="IN", help="CSV or Parquet file.", show_default=False)]
# Text, because it may be a URL such as hdfs://host/file: see Large.named.
SourcePlace = Annotated[str, typer.Argument(metavar="IN", help="CSV or Parquet file.", show_default=False)]
TablePlace = Annotated[str, typer.Argument(metavar="FILE", help="CSV or Parquet file.", show_default=False)]
SchemaFile = Annotated[
    Path, typer.Option("--schema", metavar="FILE", help="Schema of the columns; 'shoal inspect' writes one.")
]
TrainFile = Annotated[Path, typer.Argument(metavar="TRAIN", help="Training rows, CSV or Parquet.", show_default=False)]
TestFile = Annotated[
    Path | None, typer.Option("--test", metavar="FILE", help="Test rows; by default a share of TRAIN is held out.")
]
TestSize = Annotated[
    float, typer.Option("--test-size", metavar="SHARE", parser=number, help="Share of the rows that is held out.")
]
K = Annotated[int, typer.Option("--k", parser=whole, help="Minimum number of rows per group.")]
Method = Annotated[str, typer.Option("--method", metavar="NAME", help="Anonymization method: see 'shoal methods'.")]
MethodOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="Additional parameter of the method; may be repeated."),
]
OutFolder = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder for the files; it is created if it does not exist.")
]
Json = Annotated[bool, typer.Option("--json", help='Print JSON; infinity is the text "inf", and NaN is null.')]
Trust = Annotated[
    bool,
    _guide("--trust", help="Load model files that can run arbitrary code (pickle) or contain unknown types."),
]


@dataclass(frozen=True)
class Guided:
    """Guide of a method that preserves a target: a model, predictions or a column."""

    model: Annotated[
        str | None,
        _guide(metavar="MODEL", help="Model to keep accurate: a .skops, .joblib or .pkl file, or a name such as rf."),
    ] = None
    predictions: Annotated[
        Path | None, _guide(metavar="FILE", help="Predictions per row instead of a model, CSV or Parquet.")
    ] = None
    target: Annotated[
        str | None, _guide(metavar="COLUMN", help="Column to predict; by default the target of the schema.")
    ] = None
    trust: Trust = False

    @property
    def is_asked_for(self) -> bool:
        """True if any guide is given."""
        return self.model is not None or self.predictions is not None or self.target is not None

    def schema_of(self, schema: Schema) -> Schema:
        """Return the schema with the predicted column as its target."""
        if self.target is None:
            return schema
        if self.target not in schema:
            raise ShoalError(f"--target {self.target} is not in the schema: choose one of its columns.")
        role = schema[self.target].role
        if role in ("identifier", "quasi", "sensitive"):
            raise ShoalError(
                f"--target {self.target} has the role {role!r} in the schema, but a target is released unchanged: set "
                "its role to 'target', or choose another column."
            )
        return schema.with_roles(other=[a.name for a in schema.target], target=[self.target])

    def options(self, method: str, schema: Schema, n_rows: int) -> dict[str, Any]:
        """Return the options of the method."""
        from shoal.models.files import read_predictions

        if not self.is_asked_for:
            return {}
        if not takes_model(method):
            raise ShoalError(f"The method {method!r} takes no guide: choose --method accuracy-guided.")
        if self.model is not None and self.predictions is not None:
            raise ShoalError("--model and --predictions exclude each other: leave one of them out.")
        if self.predictions is not None:
            return {"y": read_predictions(self.predictions, n_rows).values}
        return {} if self.model is None else {"model": find_model(self.model, schema, self.trust)}


def takes_model(method: str) -> bool:
    """Return True if a method uses a model, which may depend on any column."""
    from shoal.anonymizers import find_method
    from shoal.parameters import constraints_of

    return "model" in constraints_of(find_method(method))


def find_models(models: str, schema: Schema, trust: bool) -> dict[str, Any]:
    """Return the models of a comma-separated list by name; a file is named by its stem."""
    found: dict[str, Any] = {}
    for model in dict.fromkeys(names_of(models)):
        label = Path(model).stem
        if label in found:
            raise ShoalError(f"--model {models} contains two models {label!r}: rename a file, or leave one out.")
        found[label] = find_model(model, schema, trust)
    return found


def find_model(model: str, schema: Schema, trust: bool) -> Any:
    """Return a model by its name, or load it from a file."""
    from shoal.models.files import load_model
    from shoal.models.named import make_model, model_names

    if model in (*model_names(), "rf", "hgb"):
        return make_model(model, schema)
    if Path(model).suffix or Path(model).is_file():
        return load_model(model, trust=trust)
    raise ShoalError(f"{model!r} is neither a file nor the name of a model: choose {', '.join(model_names())}.")


def find_predictor(path: Path, trust: bool) -> Any:
    """Load a predictor from a file; return the path of an ONNX model, which is parsed without running it."""
    from shoal.models.files import load_model

    return path if path.suffix.lower() == ".onnx" else load_model(path, trust=trust)


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading tables."""

    missing_mark: Annotated[
        list[str] | None,
        _reading(metavar="TEXT", help="Text that marks a missing value, such as '?'; may be repeated."),
    ] = None
    separator: Annotated[
        str | None, _reading(metavar="CHAR", help="Field separator of a CSV file, such as ';' or tab.")
    ] = None

    @property
    def marks(self) -> list[str]:
        """Texts that mark a missing value."""
        return self.missing_mark or []

    @property
    def character(self) -> str | None:
        """Separator as a character."""
        return "\t" if self.separator in ("tab", "\\t") else self.separator

    def table(self, path: Path) -> polars.DataFrame:
        """Read a table with numeric types, and with marks as missing values in all columns."""
        from shoal.data import files

        frame = files.read_table(path, separator=self.character, missing_marks=self.marks)
        return files.mark_missing(frame, self.marks, frame.columns)


ADDRESS = re.compile(r"^(\w[\w+.-]+):/")
"""Start of a URL such as hdfs://host/file; a Windows drive has a single letter."""


_large = partial(typer.Option, rich_help_panel="Large tables")


@dataclass(frozen=True)
class Large:
    """Options for large tables."""

    engine: Annotated[
        Literal["memory", "duckdb", "spark"] | None,
        _large(
            metavar="NAME",
            help="memory, duckdb (from disk, within --memory) or spark; by default selected by the size of the file.",
        ),
    ] = None
    memory: Annotated[
        int | None,
        _large(metavar="SIZE", parser=size, help="Memory limit, such as 4GB; by default half of the machine's memory."),
    ] = None
    master: Annotated[
        str | None,
        _large(metavar="URL", help="Spark master, such as local[4] or spark://host:7077; with --engine spark."),
    ] = None

    def chosen(self, source: Path) -> Literal["memory", "duckdb", "spark"]:
        """Return the engine for a table; print a note if its size selects DuckDB."""
        if self.master is not None and self.engine != "spark":
            raise ShoalError(f"--master {self.master} requires Spark: pass --engine spark, too.")
        if self.engine is not None:
            return self.engine
        from shoal.data.files import size_in_memory
        from shoal.engines.memory import usable_memory

        usable = usable_memory() if self.memory is None else self.memory
        needed = size_in_memory(source)
        if needed <= usable:
            return "memory"
        print(
            f"shoal: {source.name} needs about {show_size(needed)} of memory, but the limit is {show_size(usable)}: "
            "it is processed from disk (--engine duckdb).",
            file=sys.stderr,
        )
        return "duckdb"

    def named(self, given: str) -> Path | str:
        """Return a path, or a URL such as hdfs://host/file as text: a path would drop a slash."""
        return given.rstrip("/") if self.engine == "spark" and ADDRESS.match(given) else Path(given)

    def place(self, given: str) -> Path | None:
        """Return the local path, such as /tmp/x for file:///tmp/x; None for a remote URL."""
        if self.engine != "spark":
            return Path(given)
        path = re.sub(r"^file:(//(?=/))?(?=/)", "", given)
        return None if ADDRESS.match(path) else Path(path)

    @property
    def options(self) -> dict[str, Any]:
        """Options of the engines other than memory."""
        return {"memory": self.memory} | ({"master": self.master} if self.engine == "spark" else {})


def spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """Expand `Levels` and the dataclass parameters of a command: each of their fields becomes an option."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint) or hint is Levels}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        given = parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY)
        parameters += _parameters(groups[parameter.name]) if parameter.name in groups else [given]

    @wraps(command)
    def spread_command(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in _parameters(group)})
        import_sklearn()
        return command(**values)

    spread_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spread_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return spread_command


@cache
def _parameters(group: Any) -> list[inspect.Parameter]:
    if group is Levels:
        return Levels.parameters()
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(f.name, kind, default=f.default, annotation=hints[f.name]) for f in fields(group)]


def parse_options(texts: list[str], function: Callable[..., Any], own: Collection[str] = ()) -> dict[str, Any]:
    """Parse ``["mode=relaxed", "n_jobs=2"]`` into a dictionary; values are TOML, or else text.

    Parameters that the function names, the model, and those in ``own`` have command-line options and are refused.
    """
    parameters = inspect.signature(function).parameters.values()
    named = {parameter.name for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD} | {"model", *own}
    options: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ShoalError(f"--option {text} must have the form name=value, for example mode=relaxed.")
        if name.strip() in named:
            raise ShoalError(
                f"--option {text} sets {name.strip()!r}, which is set by {own_option(name.strip())}: use that instead."
            )
        try:
            options[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            options[name.strip()] = value
    return options


def parse_weights(texts: list[str] | None) -> dict[str, float] | None:
    """Parse ``["age", "sex=0.5"]`` into a dictionary; a name alone has the weight 1, and None is returned as None.

    >>> parse_weights(["age", "sex=0.5"])
    {'age': 1.0, 'sex': 0.5}
    """
    if texts is None:
        return None
    weights: dict[str, float] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        if not sign:
            weights[value] = 1.0
            continue
        try:
            weights[name] = float(value)
        except ValueError:
            raise ShoalError(
                f"--sensitive {text} must be a name, or have the form name=weight, for example age=0.5."
            ) from None
    return weights


def parse_secrets(texts: list[str] | None, rows: Path | None) -> tuple[Path | None, list[str]]:
    """Parse ``["train.csv:disease"]`` into the file and the columns; all must name the same file.

    >>> file, columns = parse_secrets(["train.csv:sex", "train.csv:disease"], None)
    >>> file.name, columns
    ('train.csv', ['sex', 'disease'])
    """
    files, columns = ([] if rows is None else [rows]), []
    for text in texts or []:
        file, sign, column = text.rpartition(":")
        if not sign or not file or not column:
            raise ShoalError(f"--confidential {text} must have the form file:column, for example train.csv:sex.")
        files.append(Path(file))
        columns.append(column)
    if len(set(files)) > 1:
        raise ShoalError(f"--confidential and --rows name {files[0]} and {files[-1]}: use one file of training rows.")
    return (files[0] if files else None), columns


def own_option(name: str) -> str:
    """Return the command-line option of a library parameter.

    >>> own_option("learn_from"), own_option("random_state")
    ('--learn-from', '--seed')
    """
    return _RENAMED.get(name, f"--{name.replace('_', '-')}")


OF_FILES = ("source", "out", "memory", "master", "threads", "missing_marks", "separator")
"""Parameters for files, not for tables in memory; each has a command-line option."""
_RENAMED = {
    "source": "the first argument",
    "missing_marks": "--missing-mark",
    "frame": "the first argument",
    "constraints": "--l, --t and the other privacy models",
    "cv": "--folds",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "sensitivity": "--sensitive",
    "suppression": "--suppress",
    "y": "--predictions",
}
