"""Options that several commands share, as dataclasses, and how a command takes them.

Nothing heavy is imported here before a command runs: ``shoal --help`` must stay instant.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_origin, get_type_hints

import typer

from shoal.cli.startup import import_sklearn
from shoal.errors import ShoalError
from shoal.privacy.base import Option, PrivacyModel
from shoal.privacy.models import MODELS

if TYPE_CHECKING:
    import polars

    from shoal.data.schema import Schema


def number(text: str) -> float:
    """A number of the command line."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def whole(text: str) -> int:
    """A whole number of the command line."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def size(text: str) -> int:
    """An amount of memory of the command line, in bytes.

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
    """An amount of memory, for people.

    >>> show_size(12_400_000_000)
    '12.4 GB'
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"


def names_of(text: str) -> list[str]:
    """Names that commas part: ``"forest, mlp"`` as a list."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise typer.BadParameter(f"{text!r} names nothing")
    return names


def _model(*names: str, **details: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Privacy models", **details)


def _reading(**details: Any) -> Any:
    return typer.Option(rich_help_panel="Reading", **details)


class Levels:
    """Privacy models asked for beside k, by the options that the models themselves describe."""

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
        members = _model(metavar="COLUMN", help=f"For {about}: true where a row is released.")
        sensitive = _model(metavar="NAME", help="Hold the models to this sensitive attribute alone, not to each.")
        return [*found, _parameter("members", str, members), _parameter("sensitive", str, sensitive)]

    def constraints(self, k: int | None) -> list[PrivacyModel]:
        """Return the models asked for, without k-anonymity."""
        self._require_company()
        asked = [self._make(model, k) for model in MODELS.values() if self._given_of(model.levels_asked())]
        if self.sensitive is not None and not any(model.about_sensitive for model in asked):
            raise ShoalError(f"--sensitive {self.sensitive} needs a model to hold it to: add --l, --t or another.")
        return asked

    def _make(self, model: type[PrivacyModel], k: int | None) -> PrivacyModel:
        values = {option.field: option.default for option in model.options if option.default is not None}
        values |= {option.field: value for option, value in self._given_of(model.options)}
        return model.from_options(values, self.members if model.about_population else self.sensitive, k)

    def _given_of(self, options: Sequence[Option]) -> list[tuple[Option, Any]]:
        given = [(option, self._given[option.parameter]) for option in options]
        return [(option, value) for option, value in given if value is not None]

    def _require_company(self) -> None:
        """Refuse options that say nothing without another one."""
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


def _level_parameter(option: Option, hint: Any) -> inspect.Parameter:
    details: dict[str, Any] = (
        {"metavar": "KIND"} if get_origin(hint) is Literal else {"parser": whole if hint is int else number}
    )
    return _parameter(option.parameter, hint, _model(option.flag, help=option.help, **details))


def _parameter(name: str, hint: Any, option: Any) -> inspect.Parameter:
    annotation = Annotated[hint | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _guide(*names: str, **details: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Guide", **details)


Source = Annotated[Path, typer.Argument(metavar="IN", help="CSV or Parquet file.", show_default=False)]
# Texts, where it may be an address such as hdfs://host/file: see Large.named.
SourcePlace = Annotated[str, typer.Argument(metavar="IN", help="CSV or Parquet file.", show_default=False)]
TablePlace = Annotated[str, typer.Argument(metavar="FILE", help="CSV or Parquet file.", show_default=False)]
SchemaFile = Annotated[
    Path, typer.Option("--schema", metavar="FILE", help="What each column is; 'shoal inspect' writes one.")
]
Json = Annotated[bool, typer.Option("--json", help='Print JSON; infinity is the text "inf", NaN null.')]
Trust = Annotated[
    bool, _guide("--trust", help="Load the model although that runs code of its maker (pickle), or types not known.")
]


@dataclass(frozen=True)
class Guided:
    """What a method that looks at a target is guided by."""

    model: Annotated[
        str | None,
        _guide(metavar="MODEL", help="The model to keep accurate: a .skops, .joblib or .pkl file, or a name like rf."),
    ] = None
    predictions: Annotated[
        Path | None, _guide(metavar="FILE", help="What a black box says of each row, instead of a model: CSV, Parquet.")
    ] = None
    target: Annotated[
        str | None, _guide(metavar="COLUMN", help="Column that is predicted; by default the schema's target.")
    ] = None
    trust: Trust = False

    @property
    def is_asked_for(self) -> bool:
        """Whether any guide is named."""
        return self.model is not None or self.predictions is not None or self.target is not None

    def schema_of(self, schema: Schema) -> Schema:
        """The schema with the column that is predicted as its target."""
        if self.target is None:
            return schema
        if self.target not in schema:
            raise ShoalError(f"--target {self.target} is not in the schema: name one of its columns.")
        role = schema[self.target].role
        if role in ("identifier", "quasi", "sensitive"):
            raise ShoalError(
                f"--target {self.target} has the role {role!r} in the schema, and a target is released as it is: give "
                "it the role 'target' there, or name another column."
            )
        return schema.with_roles(other=[a.name for a in schema.target], target=[self.target])

    def options(self, method: str, schema: Schema, n_rows: int) -> dict[str, Any]:
        """What the method is told."""
        from shoal.models.files import read_predictions

        if not self.is_asked_for:
            return {}
        if not takes_model(method):
            raise ShoalError(f"The method {method!r} is not guided by anything: choose --method accuracy-guided.")
        if self.model is not None and self.predictions is not None:
            raise ShoalError("--model and --predictions are two guides: leave one of them out.")
        if self.predictions is not None:
            return {"y": read_predictions(self.predictions, n_rows).values}
        return {} if self.model is None else {"model": find_model(self.model, schema, self.trust)}


def takes_model(method: str) -> bool:
    """Whether a method trains or asks a model, which may look at every column."""
    from shoal.anonymizers import find_method

    return "model" in find_method(method)._get_param_names()


def find_models(models: str, schema: Schema, trust: bool) -> dict[str, Any]:
    """Models that commas part, by their names, those from files by the stems of the files."""
    found: dict[str, Any] = {}
    for model in dict.fromkeys(names_of(models)):
        label = Path(model).stem
        if label in found:
            raise ShoalError(f"--model {models} names two models {label!r}: rename a file, or leave one of them out.")
        found[label] = find_model(model, schema, trust)
    return found


def find_model(model: str, schema: Schema, trust: bool) -> Any:
    """A model by its name, or from a file."""
    from shoal.models.files import load_model
    from shoal.models.named import make_model, model_names

    if model in (*model_names(), "rf", "hgb"):
        return make_model(model, schema)
    if Path(model).suffix or Path(model).is_file():
        return load_model(model, trust=trust)
    raise ShoalError(f"{model!r} is neither a file nor a model: choose one of {', '.join(model_names())}.")


def find_predictor(path: Path, trust: bool) -> Any:
    """A predictor from a file; of an ONNX model the path, which is read without running anything."""
    from shoal.models.files import load_model

    return path if path.suffix.lower() == ".onnx" else load_model(path, trust=trust)


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read."""

    missing_mark: Annotated[
        list[str] | None, _reading(metavar="TEXT", help="Text that means a missing value, such as '?'; repeatable.")
    ] = None
    separator: Annotated[
        str | None, _reading(metavar="CHAR", help="Field separator of a CSV file, such as ';' or tab.")
    ] = None

    @property
    def marks(self) -> list[str]:
        """Texts that stand for a missing value."""
        return self.missing_mark or []

    @property
    def character(self) -> str | None:
        """The separator itself, which may be spelled out."""
        return "\t" if self.separator in ("tab", "\\t") else self.separator

    def table(self, path: Path) -> polars.DataFrame:
        """A table as a model may see it: numbers are numbers, and marks are missing values in every column."""
        from shoal.data import files

        frame = files.read_table(path, separator=self.character, missing_marks=self.marks)
        return files.mark_missing(frame, self.marks, frame.columns)


ADDRESS = re.compile(r"^(\w[\w+.-]+):/")
"""How a name such as hdfs://host/file begins; a drive of Windows has one letter."""


def _large(*names: str, **details: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Large tables", **details)


@dataclass(frozen=True)
class Large:
    """Where the rows of a large table are worked on."""

    engine: Annotated[
        Literal["memory", "duckdb", "spark"] | None,
        _large(
            metavar="NAME",
            help="memory; duckdb: from disk, within --memory; or spark. By default what the file asks for.",
        ),
    ] = None
    memory: Annotated[
        int | None,
        _large(metavar="SIZE", parser=size, help="Memory to use, such as 4GB; by default half of the machine's."),
    ] = None

    master: Annotated[
        str | None,
        _large(metavar="URL", help="Where Spark runs, such as local[4] or spark://host:7077; with --engine spark."),
    ] = None

    def chosen(self, source: Path) -> Literal["memory", "duckdb", "spark"]:
        """Where a table is worked on; says so where that is from disk and nobody has asked for it."""
        if self.master is not None and self.engine != "spark":
            raise ShoalError(f"--master {self.master} is for Spark alone: pass --engine spark, too.")
        if self.engine is not None:
            return self.engine
        from shoal.data.files import size_in_memory
        from shoal.engines.memory import usable_memory

        usable = usable_memory() if self.memory is None else self.memory
        needed = size_in_memory(source)
        if needed <= usable:
            return "memory"
        print(
            f"shoal: {source.name} would take about {show_size(needed)}, and {show_size(usable)} of memory may be "
            "used: it is worked on from disk (--engine duckdb).",
            file=sys.stderr,
        )
        return "duckdb"

    def named(self, given: str) -> Path | str:
        """A file as it was named; of an address such as hdfs://host/file a path would keep one slash only."""
        return given.rstrip("/") if self.engine == "spark" and ADDRESS.match(given) else Path(given)

    def place(self, given: str) -> Path | None:
        """Where that is on this machine, such as /tmp/x of file:///tmp/x; None if it is elsewhere."""
        if self.engine != "spark":
            return Path(given)
        path = re.sub(r"^file:(//(?=/))?(?=/)", "", given)
        return None if ADDRESS.match(path) else Path(path)

    @property
    def options(self) -> dict[str, Any]:
        """What engines other than memory are told."""
        return {"memory": self.memory} | ({"master": self.master} if self.engine == "spark" else {})


def spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take `Levels` and dataclasses of options, of which each field is an option of its own."""
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
    """``["mode=relaxed", "n_jobs=2"]`` as a dictionary; values are read as TOML where they can be, else as text.

    They are further ones of a function: what it names itself, the model, and what else is said to be its ``own`` has
    an option of its own.
    """
    parameters = inspect.signature(function).parameters.values()
    named = {parameter.name for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD} | {"model", *own}
    options: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ShoalError(f"--option {text} must have the form name=value: write for example mode=relaxed.")
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
    """``["age", "sex=0.5"]`` as a dictionary, where a name alone weighs 1; None stays None.

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
                f"--sensitive {text} must be a name, or have the form name=weight: write for example age=0.5."
            ) from None
    return weights


def parse_secrets(texts: list[str] | None, rows: Path | None) -> tuple[Path | None, list[str]]:
    """``["train.csv:disease"]`` as the file and the columns; all must be of one file.

    >>> file, columns = parse_secrets(["train.csv:sex", "train.csv:disease"], None)
    >>> file.name, columns
    ('train.csv', ['sex', 'disease'])
    """
    files, columns = ([] if rows is None else [rows]), []
    for text in texts or []:
        file, sign, column = text.rpartition(":")
        if not sign or not file or not column:
            raise ShoalError(f"--confidential {text} must have the form file:column: write for example train.csv:sex.")
        files.append(Path(file))
        columns.append(column)
    if len(set(files)) > 1:
        raise ShoalError(f"--confidential and --rows name {files[0]} and {files[-1]}: name one file of training rows.")
    return (files[0] if files else None), columns


def own_option(name: str) -> str:
    """How a command calls what a parameter of the library sets.

    >>> own_option("learn_from"), own_option("random_state")
    ('--learn-from', '--seed')
    """
    return _OTHERWISE_CALLED.get(name, f"--{name.replace('_', '-')}")


OF_FILES = ("source", "out", "memory", "master", "threads", "missing_marks", "separator")
"""What the library is told about files, and not about tables in memory; each has an option of its own."""
_OTHERWISE_CALLED = {
    "source": "the file that is named first",
    "missing_marks": "--missing-mark",
    "frame": "the file that is named first",
    "constraints": "--l, --t and the other privacy models",
    "cv": "--folds",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "sensitivity": "--sensitive",
    "suppression": "--suppress",
    "y": "--predictions",
}
