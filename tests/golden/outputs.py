"""Make what users get from Shoal, and tell whether any of it has changed since it was last made.

Every artefact is something that a user holds in the end: a released table, the numbers about it, a file that a command
has written, what a model says of rows. This script makes each of them from a table of its own, by names that ``shoal``
exports and by the command line alone, so that it runs before and after any change inside of the package::

    python tests/golden/outputs.py --write tests/golden/outputs.json     # on the code as it was
    python tests/golden/outputs.py --compare tests/golden/outputs.json   # on the code as it is

Two hashes are kept of each. ``values`` is about what must not change: numbers, the structure, released cells, every
character of a written CSV file. ``words`` is about all of it, sentences for people included. The exit code of
``--compare`` is 1 if values differ, if an artefact is missing, or if one could not be made. Where only words differ the
artefact is named, and nothing more. More may be said than before: keys of JSON, fields of results and members of
classes that are new are left out of ``values``; all that were there must still be there. ``--only`` takes a part of a
name, and ``--keep FOLDER`` writes all artefacts as files, so that two folders can be compared line by line.

What has to do with time, versions and places of files is left out. Numbers that are sums of many floats are rounded to
nine digits, because the order in which threads add them up is not always the same. HTML pages are not looked at: they
show the numbers of the JSON.

Compiled kernels are kept by the path of their file. To be sure that none of an earlier state is used, name an empty
folder in NUMBA_CACHE_DIR; compiling takes a minute or two. Artefacts ``data/...`` need the papers' data sets
(SHOAL_DATA), ``spark/...`` need Spark; both are passed over where there is none of it (``--without-spark``).
"""

from __future__ import annotations

import argparse
import atexit
import csv
import datetime as dt
import fnmatch
import hashlib
import inspect
import io
import json
import math
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path

import numpy as np
import polars as pl

import shoal
from shoal import (
    AccuracyGuided,
    AlphaKAnonymity,
    Attribute,
    BetaLikeness,
    DeltaDisclosure,
    DeltaPresence,
    Flash,
    Hierarchy,
    HilbertCurve,
    KAnonymity,
    KMap,
    LDiversity,
    Mondrian,
    NullSpaceCleaner,
    PrivacyBoostClassifier,
    PrivacyForestClassifier,
    PrivacyForestRegressor,
    PrivacyLightGBM,
    PrivacySearchCV,
    PrivacyTreeClassifier,
    PrivacyTreeRegressor,
    ProtectedModel,
    Recipe,
    RPlusTree,
    SaNGreeA,
    Schema,
    TargetedNullSpaceCleaner,
    TCloseness,
    WeightSession,
    anonymize,
    audit,
    check,
    clean,
    evaluate,
    make_model,
    protect,
    train,
)

ROWS = 2_000
DIGITS = 9
VARIABLE = {"date", "versions", "seconds", "seconds_anonymize", "seconds_train"}
"""What is said under these names differs from run to run."""
SENTENCES = {
    "about", "constraints", "meaning", "note", "promise", "reason", "secret", "sentence", "verdict", "view", "warning",
    "why",
}  # fmt: skip
"""A text under these names is for people, also if it is a single word; whether there is one does not count."""
NAMES = {"attack"}
"""A text under these names is what users write themselves, also if it is of several words."""
KEYS = "keys"
"""Where all keys of all artefacts are kept, beside their hashes."""
ARTEFACTS = {}
"""What makes each artefact, by its name."""


def makes(name, cases=None):
    """Register a function that makes an artefact, or one for each case: ``{}`` stands for the name of the case."""

    def register(function):
        named = cases if isinstance(cases, dict) or cases is None else {str(case): case for case in cases}
        made = {name: function} if named is None else {name.format(k): partial(function, v) for k, v in named.items()}
        assert not made.keys() & ARTEFACTS.keys(), name
        ARTEFACTS.update(made)
        return function

    return register


# What an artefact is made of


class Data:
    """Content of which every character counts, such as a released table."""

    def __init__(self, content):
        self.content = content


class Words:
    """Text for people, which may be worded in another way."""

    def __init__(self, text):
        self.text = text


class Members:
    """Names that must all be there; others may come."""

    def __init__(self, names):
        self.names = sorted(names)


def table(frame, *, digits=None, ordered=True, **further):
    """A dataframe of any library as names, types and rows, with further columns behind; floats exactly, or rounded."""
    names = [str(name) for name in getattr(frame, "column_names", frame.columns)]
    columns = [frame[name] for name in names]
    kinds = [str(getattr(column, "dtype", getattr(column, "type", None))) for column in columns]
    columns = [column.to_pylist() if hasattr(column, "to_pylist") else list(column) for column in columns]
    columns += [list(column) for column in further.values()]
    heads = [f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True)] + list(further)
    rows = [json.dumps([cell(v, digits) for v in row], ensure_ascii=False) for row in zip(*columns, strict=True)]
    return Data({"columns": heads, "rows": rows if ordered else sorted(rows)})


def cell(value, digits=None):
    """A value of a table as JSON knows it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return str(value) if not math.isfinite(value) else value if digits is None else rounded(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def rounded(number):
    """A number without what the order of summation decides."""
    return 0.0 if abs(number) < 1e-12 else float(f"{number:.{DIGITS}g}")


def lines(path):
    """Every character of a text file, line by line."""
    return Data(Path(path).read_bytes().decode().splitlines(keepends=True))


def plain(value):
    """Named tuples, arrays and numbers of numpy as plain values, floats rounded; what varies is left out."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items() if str(name) not in VARIABLE}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return rounded(value) if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str, Data, Words, Members)):
        return value
    if isinstance(value, (Path, dt.date)):
        return str(value)
    raise TypeError(f"{type(value)} has no place in an artefact")


def in_full(content):
    """All of an artefact, words included."""
    if isinstance(content, dict):
        return {name: in_full(one) for name, one in content.items()}
    if isinstance(content, list):
        return [in_full(one) for one in content]
    if isinstance(content, Members):
        return content.names
    if isinstance(content, (Data, Words)):
        return content.content if isinstance(content, Data) else content.text.splitlines()
    return content


def without_words(content, name=None):
    """What must not change of an artefact: of words only that there are some."""
    if isinstance(content, dict):
        # A level is measured by a model that is named by its key, and described in words.
        described = {"model"} if "level" in content and "key" in content else set()
        left_out = {k for k, one in content.items() if k in SENTENCES | described and isinstance(one, str)}
        return {k: without_words(one, k) for k, one in content.items() if k not in left_out}
    if isinstance(content, list):
        return [without_words(one, name) for one in content]
    if isinstance(content, Data):
        return content.content
    if isinstance(content, (Words, Members)):
        return "..."
    return "..." if isinstance(content, str) and not is_data(content, name) else content


def is_data(text, name):
    """Whether a text is a name, a range, a set or a list of numbers, and no sentence."""
    if name in SENTENCES or name in NAMES:
        return name in NAMES
    return not re.search(r"\s", text) or re.fullmatch(r"\[.*[\])]|\{.*\}|[\d\s]+", text) is not None


def keys_of(content, name=""):
    """All keys of dictionaries in an artefact, each behind the one that it stands under."""
    inside = [(name, one) for one in content] if isinstance(content, list) else []
    inside = list(content.items()) if isinstance(content, dict) else inside
    own = {f"{name}/{key}" for key in content} if isinstance(content, dict) else set()
    return own.union(*(keys_of(one, key) for key, one in inside))


def with_keys(content, known, name=""):
    """An artefact without what is under keys that were not known before: more may be said."""
    if isinstance(content, list):
        return [with_keys(one, known, name) for one in content]
    if isinstance(content, dict):
        return {key: with_keys(one, known, key) for key, one in content.items() if f"{name}/{key}" in known}
    return content


def members_of(content):
    """All members that an artefact names."""
    return [name for one in content.values() if isinstance(one, Members) for name in one.names]


def digest(content):
    """A hash of plain values, whatever the order of names."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:32]


# The table


JOBS = {
    "office": ["clerk", "lawyer", "manager"],
    "craft": {"wood": ["carpenter", "cooper"], "metal": ["smith", "welder"]},
    "care": ["doctor", "nurse", "teacher"],
}
ILLNESSES = {"lungs": ["asthma", "flu", "cold"], "heart": ["angina", "stroke"], "other": ["well", "gout"]}
SCHOOLS = ["none", "primary", "secondary", "college", "degree"]
NOTES = ["007", "1.10", " x ", "", "a, b", '"quoted"', "1e3", "ä;|", "true", "2020-01-01"]


@cache
def people():
    """People who are nobody, with all kinds of columns, and a target that follows from some of them."""
    random = np.random.default_rng(20170101)
    age = np.clip(random.normal(42, 15, ROWS).round(), 17, 90).astype(int)
    school = np.clip((random.normal(2.2, 1.1, ROWS) + (age > 30) / 2).round(), 0, 4).astype(int)
    jobs = ["clerk", "lawyer", "manager", "carpenter", "cooper", "smith", "welder", "doctor", "nurse", "teacher"]
    job = np.clip((random.normal(4.5, 2.5, ROWS) + (school - 2) * 0.8).round(), 0, 9).astype(int)
    zips = np.array(["8010", "8020", "8054", "8600", "9020", "9500", "9900", "1010", "1220", "5020"])
    place = random.choice(10, ROWS, p=np.array([20, 15, 10, 5, 12, 8, 3, 15, 7, 5]) / 100)
    hours = np.clip((random.normal(36, 9, ROWS) * 2).round() / 2, 4, 80)
    illnesses = ["well", "flu", "cold", "asthma", "angina", "gout", "stroke"]
    illness = np.clip(random.geometric(0.3, ROWS) - 1 + (age > 70), 0, 6)
    logit = (age - 42) / 12 - ((age - 55) / 18) ** 2 + (school - 2) * 0.9 + (hours - 36) / 10 + (job % 3 - 1) * 0.8
    return pl.DataFrame(
        {
            "id": [f"p{i:04}" for i in range(ROWS)],
            "age": age,
            "zip": zips[place],
            "school": [SCHOOLS[i] for i in school],
            "job": [jobs[i] for i in job],
            "sex": random.choice(["f", "m", "x"], ROWS, p=[0.5, 0.47, 0.03]),
            "hours": hours,
            "since": [dt.date(1990, 1, 1) + dt.timedelta(days=30 * int(i)) for i in random.integers(0, 360, ROWS)],
            "illness": [illnesses[i] for i in illness],
            "severity": np.clip(illness + random.integers(0, 3, ROWS), 0, 7),
            "wage": (12 * np.exp(random.normal(0, 0.3, ROWS) + logit / 6)).round(2),
            "note": random.choice(NOTES, ROWS),
            "in_study": random.random(ROWS) < 0.35,
            "rich": np.where(random.random(ROWS) < 1 / (1 + np.exp(-1.5 * logit)), "yes", "no"),
        }
    )


@cache
def gaps():
    """The same people, of whom not everything is known."""
    random, frame = np.random.default_rng(5), people()
    names = ["age", "zip", "school", "job", "sex", "hours", "since", "illness"]
    known = {name: pl.Series(random.random(ROWS) > 0.06) for name in names}
    return frame.with_columns(pl.when(known[name]).then(pl.col(name)).alias(name) for name in names)


@cache
def schema():
    """What each column is."""
    return Schema(
        [
            Attribute("id", role="identifier", kind="nominal"),
            Attribute("age"),
            Attribute("zip", kind="nominal", hierarchy=Recipe("prefix", (2, 1))),
            Attribute("school", kind="ordinal", order=tuple(SCHOOLS)),
            Attribute("job", kind="nominal", hierarchy=Hierarchy.from_dict(JOBS, name="job")),
            Attribute("sex", kind="nominal"),
            Attribute("hours", hierarchy=Recipe("intervals", (5, 10, 20))),
            Attribute("since"),
            Attribute("illness", "sensitive", "nominal", hierarchy=Hierarchy.from_dict(ILLNESSES, name="illness")),
            Attribute("severity", role="sensitive"),
            Attribute("wage", role="other"),
            Attribute("note", role="other", kind="nominal"),
            Attribute("in_study", role="other", kind="nominal"),
            Attribute("rich", role="target", kind="nominal"),
        ]
    )


def schema_of_recipes():
    """Another schema of the same columns: other recipes, no hierarchies of names."""
    other = {
        "age": Attribute("age", hierarchy=Recipe("intervals", True)),
        "zip": Attribute("zip", kind="nominal", hierarchy=Recipe("frequencies", (0.08, 0.13))),
        "school": Attribute("school", kind="ordinal", order=tuple(SCHOOLS), hierarchy=Recipe("order", 2)),
        "job": Attribute("job", kind="nominal", hierarchy=Recipe("prefix", True)),
        "hours": Attribute("hours"),
        "since": Attribute("since", hierarchy=Recipe("dates", ("quarter", "year", "decade"))),
    }
    return Schema(other.get(attribute.name, attribute) for attribute in schema())


def schema_of_wages():
    """A schema whose target is a number."""
    return schema().with_roles(other=["rich"], target=["wage"])


def schema_of_names():
    """A schema of few columns without hierarchies, whose names are released as sets."""
    plainly = [Attribute("age"), Attribute("zip", kind="nominal"), Attribute("job", kind="nominal"), Attribute("sex")]
    kept = [Attribute(a.name, a.role, a.kind) for a in schema() if a.role != "quasi"]
    return Schema([*plainly[:3], Attribute("sex", kind="nominal"), *kept])


def features(frame=None):
    """What models see, without who somebody is."""
    return (people() if frame is None else frame).drop("id", "rich")


def target(frame=None):
    """What models learn."""
    return (people() if frame is None else frame)["rich"].to_numpy()


def numbers(frame=None):
    """Features that are numbers."""
    frame = people() if frame is None else frame
    return frame.select(pl.col("age", "hours", "severity", "wage").cast(pl.Float64), (pl.col("sex") == "f").cast(float))


# Releases


RECODINGS = ["interval", "set", "representative", "medoid", "centroid", "median", "majority", "mean", "sample"]
METHODS = {
    "mondrian": {},
    "relaxed": {"method": "mondrian", "mode": "relaxed"},
    "guided": {"method": "accuracy-guided", "guide": 0.7},
    "sangreea": {"method": "sangreea"},
    "flash": {"method": "flash", "suppression": 0.05},
    "flash-local": {"method": "flash", "mode": "local"},
    "hilbert": {"method": "hilbert"},
    "rplus": {"method": "rplus"},
}
"""One setting of each method, and of those that have two ways both."""


def release_of(frame=None, described=None, k=10, **options):
    """A release, and all that is said of it."""
    frame = people() if frame is None else frame
    return released(anonymize(frame, schema() if described is None else described, k, **options))


def released(release):
    """The table that is handed out, the evidence for it, and what it cost."""
    return {
        "table": table(release.frame, label=release.labels, row=release.rows),
        "k": release.k,
        "suppressed": release.suppressed,
        "checked": checked(release.checked),
        "loss": release.loss,
        "method": release.method,
        "parameters": release.parameters,
        "findings": release.findings,
        "summary": Words(repr(release)),
    }


def checked(found):
    """What holds on a table."""
    return found._asdict() | {"holds": found.holds}


def crossed(methods, others):
    """Cases of all pairs, by both names."""
    return {f"{one}-{other}": (methods[one], other) for one in methods for other in others}


@makes("release/recoding/{}", crossed(METHODS, RECODINGS))
def release_recoded(case):
    options, recoding = case
    return release_of(recoding=recoding, random_state=3, **options)


OPTIONS = {
    "mondrian-width": {"prefer": "width"},
    "mondrian-width-relaxed": {"prefer": "width", "mode": "relaxed", "n_jobs": 2},
    "mondrian-k-2": {"k": 2},
    "mondrian-k-100": {"k": 100},
    "guided-default-recoding": {"method": "accuracy-guided", "guide": 0.7},
    "guided-hard": {"method": "accuracy-guided", "guide": "hard"},
    "guided-hard-majority": {"method": "accuracy-guided", "guide": "hard", "recoding": "majority"},
    "guided-soft": {"method": "accuracy-guided", "guide": "soft", "random_state": 1},
    "guided-0.3": {"method": "accuracy-guided", "guide": 0.3},
    "guided-0": {"method": "accuracy-guided", "guide": 0.0},
    "guided-mondrian": {"method": "accuracy-guided", "guide": "mondrian"},
    "guided-entropy": {"method": "accuracy-guided", "guide": "hard", "criterion": "entropy"},
    "guided-one-opinion": {"method": "accuracy-guided", "guide": 0.5, "second_opinion": False},
    "guided-k-100": {"method": "accuracy-guided", "guide": 0.5, "k": 100},
    "sangreea-weights": {"method": "sangreea", "weights": {"age": 5.0, "zip": 0.5}},
    "sangreea-start": {"method": "sangreea", "start": 100, "k": 7},
    "sangreea-random": {"method": "sangreea", "start": "random", "random_state": 4},
    "flash-level": {"method": "flash", "suppression": 0.05},
    "flash-strict": {"method": "flash"},
    "flash-local-level": {"method": "flash", "mode": "local", "step": 0.01},
    "flash-mixed-level": {"method": "flash", "mode": "mixed"},
    "flash-local-suppressed": {"method": "flash", "mode": "local", "suppression": 0.03},
    "flash-most-checked": {"method": "flash", "suppression": 0.05, "most_checked": 30},
    "hilbert-position": {"method": "hilbert", "spacing": "position"},
    "hilbert-rank": {"method": "hilbert", "spacing": "rank"},
    "hilbert-k-100": {"method": "hilbert", "k": 100},
    "rplus-k-3": {"method": "rplus", "k": 3},
}


@makes("release/option/{}", OPTIONS)
def release_with_options(options):
    return release_of(**options)


@makes("release/flash-loss/{}", ["ncp", "precision", "entropy", "discernibility", "average-group-size"])
def release_of_least_loss(loss):
    return release_of(method="flash", loss=loss, suppression=0.03)


PRIVACY = {
    "k": [KAnonymity(25)],
    "alpha": [AlphaKAnonymity(0.6, 10)],
    "l-distinct": [LDiversity(3)],
    "l-entropy": [LDiversity(2.5, kind="entropy")],
    "l-recursive": [LDiversity(2, kind="recursive", c=1.5)],
    "l-of-one": [LDiversity(4, attribute="illness")],
    "t": [TCloseness(0.25)],
    "t-equal": [TCloseness(0.3, distance="equal")],
    "t-ordered": [TCloseness(0.15, distance="ordered", attribute="severity")],
    "t-hierarchical": [TCloseness(0.2, distance="hierarchical", attribute="illness")],
    "delta": [DeltaDisclosure(2.0)],
    "delta-absent": [DeltaDisclosure(2.5, attribute="illness", count_absent=True)],
    "beta": [BetaLikeness(3.0)],
    "beta-enhanced": [BetaLikeness(3.0, kind="enhanced")],
    "presence": [DeltaPresence(0.1, 0.6, "in_study")],
    "k-map": [KMap(20, "in_study")],
    "several": [LDiversity(2), TCloseness(0.4), AlphaKAnonymity(0.8, 5)],
    "population": [KMap(15, "in_study"), DeltaPresence(0.1, 0.7, "in_study"), LDiversity(2)],
}


@makes("release/privacy/{}", crossed({"mondrian": {}, "sangreea": METHODS["sangreea"]}, PRIVACY))
def release_with_privacy(case):
    options, name = case
    return release_of(k=5, constraints=PRIVACY[name], **options)


OTHERS = {name: options for name, options in METHODS.items() if name not in ("mondrian", "sangreea")}
# For models about a population Flash takes long if there are many columns.
QUICK = {name: options for name, options in OTHERS.items() if not name.startswith("flash")}


@makes("release/privacy/{}", crossed(OTHERS, ["several", "beta-enhanced"]) | crossed(QUICK, ["population"]))
def release_with_several(case):
    return release_with_privacy(case)


@makes("release/population/{}", {name: options for name, options in METHODS.items() if name.startswith("flash")})
def release_of_few_columns_with_population(options):
    return release_of(of_names(), schema_of_names(), k=5, constraints=PRIVACY["population"], **options)


@makes("release/suppression/{}", {name: one for name, one in METHODS.items() if not name.startswith("flash")})
def release_suppressed(options):
    return release_of(suppression=0.04, k=20, **options)


@makes("release/missing/{}", crossed(METHODS, ["interval", "set", "mean", "representative"]))
def release_with_gaps(case):
    options, recoding = case
    return release_of(gaps(), recoding=recoding, missing="value", **options)


@makes("release/weights/{}", METHODS)
def release_weighted(options):
    return release_of(described=schema().with_weights(age=4.0, zip=0.0, job=2.5), **options)


@makes("release/recipes/{}", METHODS)
def release_by_recipes(options):
    return release_of(gaps(), schema_of_recipes(), **options)


@makes("release/names/{}", crossed(METHODS, ["interval", "set"]))
def release_of_names(case):
    options, recoding = case
    return release_of(described=schema_of_names(), frame=of_names(), recoding=recoding, k=5, **options)


def of_names():
    return people().select(schema_of_names().names)


@makes("release/learn-from/{}", {name: one for name, one in METHODS.items() if name not in ("relaxed", "sangreea")})
def release_learned_elsewhere(options):
    frame = people()
    return attempt(lambda: release_of(frame[:900], learn_from=frame[900:], k=8, **options))


def attempt(make):
    """What a call gives, or how it is refused."""
    try:
        return make()
    except Exception as error:
        return {"refused": type(error).__name__, "told": Words(str(error))}


LIBRARIES = {
    "pandas": lambda frame: frame.to_pandas().set_index("id", drop=False),
    "pandas-arrow": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "pyarrow": lambda frame: frame.to_arrow(),
    "polars-categories": lambda frame: frame.with_columns(pl.col("job", "sex", "illness").cast(pl.Categorical)),
}
IN_LIBRARIES = {
    "interval": {},
    "mean": {"recoding": "mean"},
    "suppressed": {"suppression": 0.05, "recoding": "median"},
    "guided": METHODS["guided"],
    "flash": METHODS["flash"],
}


@makes("release/library/{}", crossed(LIBRARIES, IN_LIBRARIES))
def release_in_library(case):
    convert, name = case
    return release_of(convert(gaps()), **IN_LIBRARIES[name])


@makes("release/seed/{}", [0, 1])
def release_drawn(seed):
    return release_of(recoding="sample", random_state=seed)


@makes("release/written/{}", LIBRARIES)
def write_release(convert):
    """A release as its own methods write it."""
    release = anonymize(convert(gaps()), schema(), 10)
    release.to_csv("comma.csv")
    release.to_csv("semicolon.csv", separator=";")
    release.to_csv("tab.tsv")
    release.to_parquet("all.parquet")
    return {name: read(name) for name in ("comma.csv", "semicolon.csv", "tab.tsv", "all.parquet")}


@makes("release/network")
def release_of_network():
    random = np.random.default_rng(8)
    edges = random.integers(0, 300, (900, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    return release_of(people()[:300], method="sangreea", k=6, edges=edges, alpha=0.7, beta=0.5)


class BlackBox:
    """Something that can only be asked."""

    def predict(self, rows):
        return ["rich" if age > 40 else "poor" for age in rows["age"].to_list()]


def guided_by(**options):
    return release_of(people()[:800], method="accuracy-guided", k=20, random_state=0, **options)


@makes("release/guide/{}", {"tree": 0.7, "hard-tree": "hard", "auto-tree": "auto"})
def release_guided_by_model(guide):
    return guided_by(model=make_model("tree", schema()), guide=guide)


@makes("release/guide/black-box")
def release_guided_by_black_box():
    return guided_by(model=BlackBox(), guide=0.5)


@makes("release/guide/{}", ["predictions", "probabilities"])
def release_guided_by_what_was_said(kind):
    model = make_model("tree", schema()).fit(people()[800:], target(people()[800:]))
    said = model.predict(people()[:800]) if kind == "predictions" else model.predict_proba(people()[:800])
    return guided_by(y=said, guide="hard" if kind == "predictions" else "soft")


@makes("release/guide/numbers")
def release_guided_by_numbers():
    return release_of(described=schema_of_wages(), method="accuracy-guided", guide=0.6, k=15)


# Checks, classes, rows that come later


@makes("check/{}", PRIVACY)
def check_raw(constraints):
    frame = of_names().drop("id")
    return checked(check(frame, schema_of_names(), constraints, threshold=0.3))


@makes("check/library/{}", LIBRARIES)
def check_in_library(convert):
    return checked(check(convert(gaps()), schema(), [KAnonymity(2), LDiversity(2), TCloseness(0.5)]))


CLASSES = {
    "Mondrian": lambda: Mondrian(schema(), k=12),
    "Mondrian-relaxed": lambda: Mondrian(schema(), k=12, mode="relaxed", recoding="median"),
    "Mondrian-suppressed": lambda: Mondrian(schema(), k=12, suppression=0.05),
    "AccuracyGuided": lambda: AccuracyGuided(schema(), k=12, guide=0.6, random_state=0),
    "SaNGreeA": lambda: SaNGreeA(schema(), k=12, recoding="set"),
    "Flash": lambda: Flash(schema(), k=12, suppression=0.05),
    "Flash-local": lambda: Flash(schema(), k=12, mode="local"),
    "HilbertCurve": lambda: HilbertCurve(schema(), k=12),
    "RPlusTree": lambda: RPlusTree(schema(), k=12),
}


@makes("class/{}", CLASSES)
def use_class(make):
    frame = people()
    fitted = make()
    first = fitted.fit_transform(frame[:1200])
    later = frame[1200:1500]
    return {
        "released": table(first, label=fitted.labels_),
        "groups": table(fitted.groups_),
        "names": Data(list(fitted.get_feature_names_out())),
        "findings": fitted.findings(),
        "transformed": attempt(lambda: table(fitted.transform(later))),
        "anonymized": attempt(lambda: table(fitted.anonymize(frame[1200:]))),
        "parameters": sorted(fitted.get_params()),
    }


@makes("class/without-schema")
def use_class_without_schema():
    frame = people().select("age", "hours", "sex", "since")
    return {"released": table(Mondrian(k=20).fit_transform(frame))}


@makes("class/rows-that-come-and-go")
def use_rows_that_come_and_go():
    frame = of_names()
    tree = RPlusTree(schema_of_names(), k=6, constraints=[LDiversity(2)]).fit(frame[:600])
    deltas = [tree.delete(tree.row_ids_[::7]), tree.insert(frame[600:760]), tree.delete(tree.row_ids_[-40:])]
    changes = [
        {name: one for name, one in delta._asdict().items() if name not in ("before", "after")}
        | {"frame": table(delta.frame)}
        for delta in deltas
    ]
    return {"changes": changes, "released": table(tree.release(), row=tree.row_ids_, label=tree.labels_)}


@makes("class/lattice")
def use_lattice():
    fitted = Flash(schema_of_names(), k=5, suppression=0.02).fit(of_names())
    return {"lattice": fitted.lattice_, "levels": fitted.levels_, "loss": fitted.loss_}


@makes("refused/{}", {
    "l-of-50": {"constraints": [LDiversity(50)]},
    "k-of-3000": {"k": 3000},
    "missing": {"frame": "gaps", "missing": "error"},
    "method": {"method": "nobody"},
    "recoding": {"recoding": "nothing"},
    "suppression": {"suppression": 2},
    "option": {"guide": 0.5},
})  # fmt: skip
def refuse(options):
    frame = gaps() if options.get("frame") == "gaps" else people()
    return attempt(lambda: release_of(**(options | {"frame": frame})))


# Schemas, hierarchies, names


def hierarchy_files(hierarchy):
    hierarchy.to_json("hierarchy.json")
    hierarchy.to_csv("hierarchy.csv")
    return {
        "json": lines("hierarchy.json"),
        "csv": lines("hierarchy.csv"),
        "shown": Data(hierarchy.show().splitlines()),
        "alike": [Hierarchy.from_json("hierarchy.json") == hierarchy, Hierarchy.from_csv("hierarchy.csv") == hierarchy],
    }


@makes("hierarchy/{}", {
    "dict": lambda: Hierarchy.from_dict(JOBS, name="job"),
    "flat": lambda: Hierarchy.flat(["a", "b", "c d"]),
    "intervals": lambda: Hierarchy.from_intervals(17, 40, widths=[5, 10, 20]),
    "edges": lambda: Hierarchy.from_intervals(edges=[0, 0.5, 1, 2], values=[0.1, 0.5, 0.75, 1.5]),
    "prefix": lambda: Hierarchy.from_prefix(["8010", "8020", "9500", "95"], keep=[3, 1]),
    "dates": lambda: Hierarchy.from_dates(["2020-01-05", "2020-02-07", "2021-11-30"], units=["month", "half", "year"]),
    "order": lambda: Hierarchy.from_order(SCHOOLS, fanout=2),
    "frequencies": lambda: Hierarchy.from_frequencies({"a": 90, "b": 9, "c": 1, "d": 1}, below=[0.02, 0.1]),
    "rows": lambda: Hierarchy.from_rows([["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]]),
})  # fmt: skip
def make_hierarchy(make):
    return hierarchy_files(make())


def toml_files(path):
    """A schema file and the hierarchies beside it: what it says, and its comments."""
    text = Path(path).read_text(encoding="utf-8")
    beside = sorted(Path(path).parent.glob("*.json"))
    return {
        "content": Data(tomllib.loads(text)),
        "text": Words(text),
        "hierarchies": {one.name: lines(one) for one in beside},
    }


@makes("schema/{}", {
    "of-people": schema,
    "of-recipes": schema_of_recipes,
    "of-names": schema_of_names,
    "weighted": lambda: schema().with_weights(age=2.5).with_roles(other=["zip"], quasi=["wage"]),
    "inferred": lambda: Schema.infer(people()),
    "inferred-gaps": lambda: Schema.infer(gaps().to_pandas()),
})  # fmt: skip
def make_schema(make):
    made = make()
    made.to_toml("schema.toml")
    return toml_files("schema.toml") | {
        "shown": Words(repr(made)),
        "names": made.names,
        "reasons": made.reasons,
        "alike": Schema.from_toml("schema.toml") == made,
    }


@makes("name/{}", [name for name in shoal.__all__ if name != "__version__"])
def describe_export(name):
    """What can be called by a name that is exported: its parameters, and the members of a class."""
    item = getattr(shoal, name)
    parameters = list(inspect.signature(item).parameters.values())
    # Those that are only given by their names may stand in any order.
    parameters.sort(key=lambda p: p.name if p.kind is p.KEYWORD_ONLY else "")
    known = [f"{p.kind.name} {p.name}" + ("" if p.default is p.empty else f" = {p.default!r}") for p in parameters]
    members = [one for one in dir(item) if not one.startswith("_")] if inspect.isclass(item) else []
    return {"parameters": Data(known), "members": Members(members)}


# Models


@makes("model/named/{}", ["tree", "forest", "boosting", "mlp", "logistic", "svm", "neighbors", "bayes", "xgb", "lgbm"])
def train_named_model(name):
    frame = gaps()
    model = make_model(name, schema(), random_state=0).fit(frame[:800], target(frame[:800]))
    return {"said": Data(model.predict(frame[800:1200]).tolist())} | chances(model, frame[800:1200])


def chances(model, rows):
    return {"chances": model.predict_proba(rows).round(6)} if hasattr(model, "predict_proba") else {}


@makes("model/number/{}", ["tree", "forest", "boosting", "neighbors"])
def train_model_of_numbers(name):
    frame = people()
    model = make_model(name, schema_of_wages()).fit(frame[:800], frame["wage"][:800].to_numpy())
    return {"said": model.predict(frame[800:1200]).round(6)}


SENSITIVITY = {"age": 1.0, "sex": 0.5}
TREES = {
    "tree": PrivacyTreeClassifier(max_depth=8),
    "tree-penalty": PrivacyTreeClassifier(max_depth=8, sensitivity=SENSITIVITY, penalty=3.0),
    "tree-stops": PrivacyTreeClassifier(sensitivity=SENSITIVITY, penalty_stops=True, criterion="entropy"),
    "tree-level": PrivacyTreeClassifier(sensitivity=SENSITIVITY, penalty=0, min_level=4, weighted=True),
    "tree-visits": PrivacyTreeClassifier(sensitivity=SENSITIVITY, penalty=0, min_level=9, level_by="visits"),
    "tree-splits": PrivacyTreeClassifier(sensitivity=SENSITIVITY, penalty=0, max_splits=2, split_cost="rows"),
    "tree-schema": PrivacyTreeClassifier(sensitivity=schema(), max_splits=1, max_depth=6),
    "tree-pruned": PrivacyTreeClassifier(ccp_alpha=0.002, class_weight="balanced", max_leaf_nodes=40),
    "forest": PrivacyForestClassifier(12, random_state=0),
    "forest-penalty": PrivacyForestClassifier(12, sensitivity=SENSITIVITY, random_state=1, oob_score=True, n_jobs=2),
    "forest-shared": PrivacyForestClassifier(
        8, sensitivity=SENSITIVITY, penalty=0, max_splits=10, share="ensemble", random_state=2
    ),
    "boost": PrivacyBoostClassifier(15, max_depth=2, random_state=0),
    "boost-penalty": PrivacyBoostClassifier(15, sensitivity=SENSITIVITY, penalty=2.0, max_splits=1, random_state=0),
}


@makes("model/tree/{}", TREES)
def train_tree(model):
    return use_trees(model, features(gaps())[:1200], target()[:1200], features(gaps())[1200:])


@makes("model/tree/library/{}", LIBRARIES)
def train_tree_in_library(convert):
    frame = convert(gaps().drop("rich"))
    frame = frame.drop(columns="id") if hasattr(frame, "iloc") else frame
    model = PrivacyTreeClassifier(max_depth=6, sensitivity=SENSITIVITY)
    return use_trees(model, frame, target(), frame)


@makes("model/tree/number/{}", {
    "tree": PrivacyTreeRegressor(max_depth=7, sensitivity={"age": 1.0}),
    "forest": PrivacyForestRegressor(8, sensitivity={"age": 0.7}, random_state=0, max_splits=3),
})  # fmt: skip
def train_tree_of_numbers(model):
    rows = features().drop("wage")
    return use_trees(model, rows[:1200], people()["wage"][:1200].to_numpy(), rows[1200:])


def use_trees(model, rows, y, unseen):
    """What trees say, lean on and look like."""
    model.fit(rows, y)
    found = {name: getattr(model, name) for name in ("oob_score_", "votes_", "errors_") if hasattr(model, name)}
    if hasattr(model, "tree_"):
        tree = model.tree_
        found |= {"features": tree.feature, "values": tree.value, "rows": tree.n_node_samples, "depth": tree.max_depth}
        found["leaves"] = model.apply(unseen)
    return found | {
        "said": model.predict(unseen),
        "chances": model.predict_proba(unseen) if hasattr(model, "predict_proba") else None,
        "importances": model.feature_importances_,
        "impurity": model.impurity_importances_,
        "splits": model.n_splits_,
    }


@makes("model/search")
def search_setting():
    tree = PrivacyTreeClassifier(max_depth=6, sensitivity={"age": 1.0})
    search = PrivacySearchCV(tree, max_accuracy_loss=0.02, cv=3).fit(features()[:1200], target()[:1200])
    return {"best": search.best_, "tried": search.tried_, "said": search.predict(features()[1200:])}


@makes("model/lightgbm/{}", [0.0, 9.0])
def train_lightgbm(penalty):
    from lightgbm import LGBMClassifier

    inner = LGBMClassifier(n_estimators=20, deterministic=True, force_row_wise=True, n_jobs=1, verbose=-1)
    model = PrivacyLightGBM(inner, sensitivity={"age": 1.0}, penalty=penalty)
    rows = numbers().to_pandas()
    model.fit(rows[:1200], target()[:1200])
    return {
        "said": model.predict(rows[1200:]),
        "chances": model.predict_proba(rows[1200:]),
        "importances": model.feature_importances_,
        "splits": model.n_splits_,
    }


@makes("model/protected/{}", {
    "mondrian": lambda: Mondrian(schema(), k=15, recoding="representative"),
    "guided": lambda: AccuracyGuided(schema(), k=15, guide=0.7, random_state=0),
    "hilbert": lambda: HilbertCurve(schema(), k=15, recoding="centroid"),
})  # fmt: skip
def train_protected_model(make):
    model = ProtectedModel(make_model("tree", schema()), make()).fit(people()[:1200])
    unseen = people()[1200:]
    return {
        "said": model.predict(unseen),
        "chances": model.predict_proba(unseen),
        "labels": model.anonymizer_.labels_,
        "score": model.score(unseen, target(unseen)),
    }


@makes("protect/{}", {
    "tree": {"model": "tree", "guide": 0.7},
    "searched": {"model": "tree", "k": 25, "constraints": [LDiversity(2)]},
    "logistic-mondrian": {"model": "logistic", "method": "mondrian", "recoding": "median"},
    "forest-hilbert": {"model": "forest", "method": "hilbert", "k": 20, "test_size": 0.3, "random_state": 2},
})  # fmt: skip
def protect_model(options):
    protection = protect(people()[:1000], schema(), **({"k": 10} | options))
    return {
        "release": released(protection.release),
        "comparison": protection.comparison,
        "raw_risk": protection.raw_risk,
        "rows": protection.rows,
        "said": protection.model.predict(people()[1000:1400]),
        "verdict": protection.verdict,
        "summary": Words(repr(protection)),
    }


@makes("train/{}", {
    "tree": {"estimator": "tree", "max_depth": 6, "sensitivity": SENSITIVITY},
    "forest": {"estimator": "forest", "n_estimators": 6, "max_importance": 0.05, "max_depth": 5},
    "boost": {"estimator": "boost", "n_estimators": 6, "max_accuracy_loss": 0.02},
})  # fmt: skip
def train_guided(options):
    training = train(people()[:1000], schema(), cv=2, n_jobs=1, **options)
    rules = training.rules()
    return training.facts() | {
        "said": training.model.predict(features()[1000:].select(training.model.feature_names_in_)),
        "importance": training.importance,
        "leaning": training.leaning,
        "rules": None if rules is None else Data(rules.splitlines()),
        "summary": Words(repr(training)),
    }


@makes("train/number")
def train_guided_to_numbers():
    training = train(people()[:1000], schema_of_wages(), "tree", cv=2, n_jobs=1, max_depth=5)
    return training.facts() | {"rules": Data(training.rules().splitlines())}


@makes("evaluate/{}", {"yes-or-no": schema, "number": schema_of_wages})
def evaluate_methods(described):
    methods = ["mondrian", ("halves", "mondrian", {"mode": "relaxed"}), ("guided", "accuracy-guided", {"guide": 0.7})]
    found = evaluate(people()[:800], described(), "tree", k=(5, 40), seeds=2, methods=methods)
    found.to_csv("frontier.csv")
    return {
        "rows": found.rows,
        "csv": csv_of_numbers("frontier.csv"),
        "summary": found.summary(),
        "affordable": found.affordable(loss=0.05),
        "settings": found.settings,
        "answer": Words("\n".join(found.answer(loss=0.05))),
    }


@makes("evaluate/not-reached")
def evaluate_what_is_not_reached():
    found = evaluate(people()[:300], schema(), "tree", k=(5, 500), seeds=2)
    return {"rows": found.rows, "summary": found.summary()}


def csv_of_numbers(path):
    """A CSV file of results as named values, which tell numbers from words."""
    with open(path, newline="", encoding="utf-8") as file:
        return [{name: read_number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def read_number(text):
    try:
        return float(text)
    except ValueError:
        return text


@makes("audit/{}", {
    "tree": {"attacks": ["loss", "entropy", "label", "LiRA online"], "n_references": 4},
    "release": {"attacks": ["loss"], "released": True},
    "all": {"n_references": 4},
})  # fmt: skip
def audit_model(options):
    frame = people().drop("note", "in_study", "wage")
    members, controls = frame[:250], frame[250:500]
    described = Schema(attribute for attribute in schema() if attribute.name in frame.columns)
    model = make_model("tree", described).fit(members, target(members))
    release = anonymize(members, described, 5).frame if options.get("released") else None
    found = audit(model, members, controls, described, **(options | {"released": release}))
    risks = {risk: {one.attack: one.risks for one in results} for risk, results in found.results.items()}
    return found.facts() | {"risks": risks, "summary": Words(repr(found))}


@makes("weights/{}", {"by-age": ("age", 5, 0), "by-job": ("job", 8, 3)})
def learn_weights(case):
    wanted, k, seed = case
    session = WeightSession(gaps(), schema(), k=k, random_state=seed)
    asked = []
    for _ in range(8):
        question = session.ask()
        asked.append(question)
        first, second = question.first.loss[wanted], question.second.loss[wanted]
        session.answer("skip" if first == second else "first" if first < second else "second")
    session.undo()
    session.save("session.json")
    again = WeightSession.load("session.json", gaps(), schema())
    return {
        "questions": asked,
        "log": session.log,
        "weights": session.weights,
        "uncertainty": session.uncertainty,
        "again": again.weights,
        "saved": json.loads(Path("session.json").read_text()),
    }


# Cleaning


@cache
def linear_model():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression()).fit(numbers()[:1000], target()[:1000])


@cache
def linear_model_of_numbers():
    from sklearn.linear_model import LinearRegression

    wanted = np.column_stack([people()["wage"][:1000].to_numpy(), (target()[:1000] == "yes") * 3.0])
    return LinearRegression().fit(numbers()[:1000], wanted)


CLEANERS = {
    "knapsack": lambda: NullSpaceCleaner(linear_model(), epsilon=0.05),
    "energy": lambda: NullSpaceCleaner(linear_model_of_numbers(), epsilon=0.5, mode="energy"),
    "exact": lambda: NullSpaceCleaner(linear_model_of_numbers(), mode="exact", reference="zero"),
    "bounds": lambda: NullSpaceCleaner(linear_model_of_numbers(), epsilon=0.5, bounds=(0.0, 200.0), keep=["age"]),
    "matrix": lambda: NullSpaceCleaner(np.arange(10.0).reshape(5, 2) / 7, epsilon=0.3),
    "targeted": lambda: TargetedNullSpaceCleaner(linear_model_of_numbers(), epsilon=0.5),
    "targeted-features": lambda: TargetedNullSpaceCleaner(
        linear_model_of_numbers(), epsilon=0.5, learn_on="features", unknown=0
    ),
}


@makes("cleaner/{}", CLEANERS)
def clean_by_class(make):
    rows, secret = numbers()[:1000], people()["illness"][:1000].to_numpy()
    cleaner = make().fit(rows, secret)
    cleaned = cleaner.transform(numbers()[1000:])
    return {
        "rank": cleaner.rank_,
        "kept": cleaner.kept_,
        "cleaned": table(cleaned, digits=DIGITS),
        "moved": cleaner.utility_errors(numbers()[1000:], cleaned).round(9),
    }


@makes("clean/{}", {
    "plain": {},
    "secret": {"secret": "severity_", "epsilon": 0.2},
    "kept": {"keep": ["age"], "mode": "energy", "epsilon": 0.1},
})  # fmt: skip
def clean_queries(options):
    known = numbers()[:600].with_columns(people()["severity"][:600].alias("severity_"))
    found = clean(
        numbers()[600:1000], linear_model_of_numbers(), rows=known, learners=["linear", "boosting"], **options
    )
    return found.facts() | {"cleaned": table(found.frame, digits=DIGITS), "summary": Words(repr(found))}


# The command line


@cache
def inputs():
    """A folder of files that commands read, beside the folder in which they run."""
    import skops.io

    folder = Path("../in").resolve()
    folder.mkdir()
    frame, marked = people(), gaps().with_columns(pl.all().cast(pl.String).fill_null("?"))
    schema().to_toml(folder / "people.toml")
    frame.write_csv(folder / "people.csv")
    frame.write_csv(folder / "people.tsv", separator="\t")
    frame.write_csv(folder / "semicolon.csv", separator=";")
    frame.write_parquet(folder / "people.parquet")
    gaps().write_parquet(folder / "gaps.parquet")
    marked.write_csv(folder / "gaps.csv")
    frame[:1000].write_csv(folder / "train.csv")
    frame[1000:].write_csv(folder / "test.csv")
    few = frame.drop("note", "in_study", "wage")
    few[:250].write_csv(folder / "members.csv")
    few[250:500].write_csv(folder / "controls.csv")
    few_schema = Schema(attribute for attribute in schema() if attribute.name in few.columns)
    few_schema.to_toml(folder / "few.toml")
    numbers()[:600].with_columns(people()["job"][:600].alias("profession")).write_csv(folder / "known.csv")
    numbers()[600:900].with_columns(people()["note"][600:900].alias("note")).write_csv(folder / "queries.csv")
    model = make_model("tree", schema()).fit(frame[:1000], target(frame[:1000]))
    pl.DataFrame({"said": model.predict(frame)}).write_csv(folder / "said.csv")
    pl.DataFrame(model.predict_proba(frame), schema=["no", "yes"]).write_csv(folder / "chances.csv")
    skops.io.dump(model, folder / "tree.skops")
    small = make_model("tree", few_schema).fit(few[:250], target(few[:250]))
    skops.io.dump(small, folder / "members.skops")
    skops.io.dump(linear_model(), folder / "linear.skops")
    return folder


def command(line, *files):
    """Run a command line as ``python -m shoal`` does: its exit code, what it said, and files that it wrote."""
    inputs()
    out, err = io.StringIO(), io.StringIO()
    arguments, handler = sys.argv, signal.getsignal(signal.SIGPIPE) if hasattr(signal, "SIGPIPE") else None
    sys.argv = ["shoal", *shlex.split(line)]
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            runpy.run_module("shoal", run_name="__main__")
    except SystemExit as left:
        code = left.code
    finally:
        sys.argv = arguments
        if handler is not None:
            signal.signal(signal.SIGPIPE, handler)
    said = json.loads(out.getvalue()) if "--json" in line and out.getvalue() else Words(out.getvalue())
    if isinstance(said, dict) and not str(said.get("out", "")).endswith((".csv", ".tsv")):
        said.pop("file", None)  # the bytes of a Parquet file are another library's
    return {
        "code": code,
        "said": said,
        "complained": Words(err.getvalue()),
        "files": {name: read(name) for name in files},
    }


def read(name):
    """A file that a command wrote."""
    path = Path(name)
    if not path.exists():
        return None
    if path.is_dir():
        return read_folder(path)
    if path.suffix == ".parquet":
        return table(pl.read_parquet(path))
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    return toml_files(path) if path.suffix == ".toml" else lines(path)


def read_folder(path):
    """What Spark wrote, in many files, the rows in an order of their own."""
    if any(path.glob("*.parquet")):
        return table(pl.read_parquet(path / "*.parquet"), ordered=False)
    parts = [one.read_bytes().decode().splitlines(keepends=True) for one in sorted(path.glob("*.csv"))]
    return Data(
        {"heads": sorted({part[0] for part in parts}), "rows": sorted(row for part in parts for row in part[1:])}
    )


ANONYMIZE = {
    "csv": "people.csv --k 10 --report report.html",
    "csv-to-parquet": "people.csv --k 10 --out out.parquet",
    "parquet": "people.parquet --k 10 --out out.parquet",
    "parquet-to-csv": "people.parquet --k 10",
    "tsv": "people.tsv --k 10 --out out.tsv",
    "tsv-to-csv": "people.tsv --k 10",
    "semicolon": "semicolon.csv --k 10 --separator ';'",
    "marks": "gaps.csv --k 10 --missing-mark ?",
    "marks-set": "gaps.csv --k 10 --missing-mark ? --recoding set",
    "marks-to-parquet": "gaps.csv --k 10 --missing-mark ? --out out.parquet",
    "marks-refused": "gaps.csv --k 10 --missing-mark ? --missing error",
    "gaps": "gaps.parquet --k 10 --out out.parquet",
    "l": "people.csv --k 5 --l 3",
    "l-entropy": "people.csv --k 5 --l 2 --l-kind entropy --sensitive illness",
    "l-recursive": "people.csv --k 5 --l 2 --l-kind recursive --c 2",
    "t": "people.csv --k 5 --t 0.3",
    "t-hierarchical": "people.csv --k 5 --t 0.2 --t-distance hierarchical --sensitive illness",
    "delta": "people.csv --k 5 --delta 2",
    "beta": "people.csv --k 5 --beta 3 --beta-kind enhanced",
    "alpha": "people.csv --k 5 --alpha 0.6",
    "k-map": "people.csv --k 2 --kmap 15 --members in_study",
    "presence": "people.csv --k 2 --presence-low 0.1 --presence-high 0.7 --members in_study",
    "several": "people.csv --k 5 --l 2 --t 0.4 --alpha 0.8 --suppress 0.03",
    "relaxed": "people.csv --k 10 --option mode=relaxed --option prefer=width",
    "sangreea": "people.csv --k 10 --method sangreea --option 'weights={age=5.0}'",
    "flash": "people.csv --k 10 --method flash --suppress 0.05",
    "flash-local": "people.csv --k 10 --method flash --option mode=local --recoding interval",
    "hilbert": "people.csv --k 10 --method hilbert --recoding mean",
    "rplus": "people.csv --k 10 --method rplus --recoding median",
    "guided": "people.csv --k 20 --method accuracy-guided --option guide=0.7 --seed 1",
    "guided-model": "people.csv --k 20 --method accuracy-guided --option guide=0.7 --model tree",
    "guided-file": "people.csv --k 20 --method accuracy-guided --option guide=0.7 --model ../in/tree.skops --trust",
    "guided-target": "people.csv --k 20 --method accuracy-guided --option guide=hard --target in_study",
    "predictions": "people.csv --k 20 --method accuracy-guided --option guide=hard --predictions ../in/said.csv",
    "chances": "people.csv --k 20 --method accuracy-guided --option guide=soft --predictions ../in/chances.csv",
    "learn-from": "test.csv --k 10 --learn-from ../in/train.csv",
    "sample": "people.csv --k 10 --recoding sample --seed 7",
    "threads": "people.csv --k 10 --threads 2",
    "unreachable": "people.csv --k 5 --l 50",
    "no-such-file": "nobody.csv --k 5",
    "no-such-method": "people.csv --k 5 --method nobody",
    "no-such-option": "people.csv --k 5 --option nothing=1",
    "untrusted": "people.csv --k 20 --method accuracy-guided --model ../in/tree.skops",
}


def release_command(options, more=""):
    """A release by the command line, and what ``check`` says of it."""
    out = re.search(r"--out (\S+)", options)
    out, source = out.group(1) if out else "out.csv", options.split()[0]
    named = "" if "--out" in options else f"--out {out}"
    done = command(f"anonymize ../in/{options} --schema ../in/people.toml {named} {more} --json", out)
    if done["code"] != 0:
        return done
    separator = "--separator ';'" if source.startswith("semicolon") else ""
    marks = "--missing-mark ?" if "--missing-mark" in options else ""
    again = command(f"check {out} --schema ../in/people.toml --k 5 {separator} {marks} {more} --json")
    return done | {"check": again}


@makes("cli/anonymize/{}", ANONYMIZE)
def anonymize_by_command(options):
    return release_command(options)


@makes("cli/check/{}", {
    "raw": "people.csv",
    "k": "people.csv --k 2",
    "parquet": "gaps.parquet --k 2 --l 2 --threshold 0.5",
    "models": "people.csv --k 1 --l 1 --t 0.9 --beta 50 --alpha 1 --delta 9 --sensitive illness",
    "population": "people.csv --kmap 1 --presence-low 0 --presence-high 1 --members in_study",
    "marks": "gaps.csv --missing-mark ? --k 1",
    "refused": "people.csv --l-kind entropy",
})  # fmt: skip
def check_by_command(options):
    return command(f"check ../in/{options} --schema ../in/people.toml --json")


@makes("cli/inspect/{}", {
    "csv": "people.csv",
    "marks": "gaps.csv --missing-mark ?",
    "parquet": "gaps.parquet",
    "semicolon": "semicolon.csv --separator ';'",
})  # fmt: skip
def inspect_by_command(options):
    return command(f"inspect ../in/{options} --out found.toml --json", "found.toml")


SHOWN = {
    "inspect": "inspect ../in/people.csv --out found.toml",
    "anonymize": "anonymize ../in/people.csv --schema ../in/people.toml --k 10 --l 2 --out out.csv",
    "check": "check ../in/people.csv --schema ../in/people.toml --k 2",
    "methods": "methods",
    "no-command": "",
    "no-such-command": "release",
}


@makes("cli/shown/{}", SHOWN)
def show_by_command(line):
    """What a terminal shows, without the sizes of files, which are of files that are looked at elsewhere."""
    return command(line)


HELPED = ["inspect", "anonymize", "check", "protect", "train", "clean", "audit", "frontier", "studio", "methods",
          "datasets", "demo"]  # fmt: skip


@makes("cli/help/{}", HELPED)
def help_by_command(name):
    done = command(f"{name} --help")
    return done | {"options": sorted(set(re.findall(r"^\W*(--[a-z][\w-]*)", done["said"].text, re.M)))}


@makes("cli/methods")
def methods_by_command():
    return command("methods --json")


@makes("cli/census")
def census_by_command():
    return command("datasets census --rows 300 --seed 2 --out census.csv --json", "census.csv", "census.toml")


@makes("cli/demo")
def demo_by_command():
    return command("demo --rows 500 --out demo", "demo/census.csv", "demo/schema.toml", "demo/released.csv")


@makes("cli/protect/{}", {
    "tree": "--model tree --k 10 --option guide=0.7",
    "logistic": "--model logistic --k 20 --l 2 --method mondrian --recoding median --test ../in/test.csv",
})  # fmt: skip
def protect_by_command(options):
    line = f"protect ../in/train.csv --schema ../in/people.toml {options} --out done --json"
    return command(line, "done/released.csv", "done/training.json") | {"said": saved_model("done/model.skops")}


def saved_model(path):
    """What a model in a file says of people."""
    import skops.io

    model = skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
    rows = people()[1000:1400].drop("id", "rich")
    return Data(model.predict(rows.select(list(getattr(model, "feature_names_in_", rows.columns)))).tolist())


@makes("cli/train/{}", {
    "tree": "--estimator tree --option max_depth=4 --sensitive age --sensitive sex=0.5",
    "forest": "--estimator forest --option n_estimators=5 --max-importance 0.1",
    "boost": "--estimator boost --option n_estimators=5 --max-accuracy-loss 0.02",
})  # fmt: skip
def train_by_command(options):
    line = f"train ../in/train.csv --schema ../in/people.toml {options} --folds 2 --jobs 1 --out done --json"
    done = command(line, "done/training.json", "done/rules.txt")
    return done | {"model": saved_model("done/model.skops")}


@makes("cli/clean/{}", {
    "plain": "--epsilon 0.05",
    "known": "--epsilon 0.05 --rows ../in/known.csv --mode energy --keep age",
    "secret": "--epsilon 0.2 --confidential ../in/known.csv:profession --within seen",
})  # fmt: skip
def clean_by_command(options):
    done = command(f"clean ../in/queries.csv --predictor ../in/linear.skops {options} --json")
    return done | {"cleaned": csv_of_numbers("cleaned.csv")}


@makes("cli/audit/model")
def audit_by_command():
    line = "audit --model ../in/members.skops --trust --members ../in/members.csv --controls ../in/controls.csv"
    return command(f"{line} --schema ../in/few.toml --references 4 --jobs 1 --json", "audit.json")


@makes("cli/audit/{}", {
    "trained": "train {} --estimator tree --option max_depth=4 --folds 2 --jobs 1 --sensitive age",
    "protected": "protect {} --model tree --k 5 --option guide=0.7",
})  # fmt: skip
def audit_folder_by_command(line):
    """Attack what another command wrote; trees of Shoal are read without trust."""
    made = command(line.format("../in/members.csv --schema ../in/few.toml") + " --out done --json")
    trust = "--trust" if line.startswith("protect") else ""
    asked = f"audit --from done {trust} --members ../in/members.csv --schema ../in/few.toml --references 4 --jobs 1"
    return {"made": made["code"], "audit": command(f"{asked} --json", "audit.json")}


@makes("cli/frontier")
def frontier_by_command():
    line = "frontier ../in/train.csv --schema ../in/people.toml --model tree --methods mondrian,hilbert --k 5,40"
    done = command(f"{line} --seeds 2 --out done --json")
    return done | {"csv": csv_of_numbers("done/frontier.csv")}


@makes("cli/process")
def run_process():
    """The command as a process of its own."""
    asked = f"anonymize {inputs()}/people.csv --schema {inputs()}/people.toml --k 10 --out out.csv"
    done = subprocess.run([sys.executable, "-m", "shoal", *shlex.split(asked)], capture_output=True, text=True)
    return {"code": done.returncode, "complained": Words(done.stderr), "out": read("out.csv")}


# Large tables


DUCKDB = {
    "csv": "people.csv --k 10",
    "csv-to-parquet": "people.csv --k 10 --out out.parquet",
    "parquet": "people.parquet --k 10 --l 2 --out out.parquet",
    "parquet-to-csv": "people.parquet --k 10 --recoding set",
    "tsv": "people.tsv --k 10 --out out.tsv",
    "fragments": "people.parquet --k 5 --l 2 --t 0.5 --suppress 0.02 --option rows_per_fragment=500",
    "marks": "gaps.csv --k 10 --missing-mark ? --recoding mean",
    "gaps": "gaps.parquet --k 10 --out out.parquet --option rows_per_fragment=700",
    "relaxed": "people.csv --k 10 --option mode=relaxed",
    "sangreea": "people.csv --k 10 --method sangreea --option rows_per_fragment=600",
    "flash": "people.csv --k 10 --method flash --suppress 0.05",
    "flash-local": "people.csv --k 10 --method flash --option mode=local",
    "hilbert": "people.csv --k 10 --method hilbert --option rows_per_fragment=600",
    "rplus": "people.csv --k 10 --method rplus --option rows_per_fragment=600",
    "guided": "people.csv --k 20 --method accuracy-guided --option guide=0.7 --seed 1",
    "k-map": "people.parquet --k 2 --kmap 15 --members in_study",
    "sample": "people.csv --k 10 --recoding sample --seed 3 --option rows_per_fragment=600",
}


@makes("duckdb/{}", DUCKDB)
def release_from_disk(options):
    return release_command(options, "--engine duckdb --memory 1GB")


SPARK = {
    "parquet": "people.parquet --k 10 --out out.parquet",
    "csv": "people.csv --k 10",
    "csv-to-parquet": "people.csv --k 10 --l 2 --out out.parquet",
    "parquet-to-csv": "people.parquet --k 10 --recoding set",
    "fragments": "people.parquet --k 5 --l 2 --out out.parquet --option rows_per_fragment=500",
    "fragments-csv": "people.csv --k 5 --t 0.5 --suppress 0.02 --option rows_per_fragment=500",
    "gaps": "gaps.parquet --k 10 --out out.parquet",
    "sangreea": "people.parquet --k 10 --method sangreea --out out.parquet",
    "flash": "people.csv --k 10 --method flash --suppress 0.05",
    "hilbert": "people.parquet --k 10 --method hilbert --out out.parquet --option rows_per_fragment=600",
    "rplus": "people.csv --k 10 --method rplus --recoding median",
    "k-map": "people.parquet --k 2 --kmap 15 --members in_study",
}
BY_SPARK = "--engine spark --master 'local[2]'"


@cache
def start_spark():
    """One Spark that all commands of this process use; where no Java is on the path each command starts its own."""
    if shutil.which("java") is None:
        return
    from pyspark import SparkConf, SparkContext

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
    }
    context = SparkContext(conf=SparkConf().setAll(settings.items()))
    atexit.register(context.stop)


@makes("spark/{}", SPARK)
def release_by_spark(options):
    start_spark()
    return without_files(release_command(options, BY_SPARK))


@makes("spark/process")
def run_process_with_spark():
    """The command as a process of its own, which also starts and stops Spark."""
    read_from, line = inputs(), "--k 10 --out out.parquet --json"
    asked = f"anonymize {read_from}/people.parquet --schema {read_from}/people.toml {line} {BY_SPARK}"
    done = subprocess.run([sys.executable, "-m", "shoal", *shlex.split(asked)], capture_output=True, text=True)
    said = {"code": done.returncode, "said": json.loads(done.stdout), "complained": Words(done.stderr)}
    return without_files(said) | {"out": read("out.parquet")}


def without_files(done):
    """What was said of a folder that Spark wrote, but for how many files there are, and their bytes."""
    if isinstance(done["said"], dict):
        done["said"].pop("file", None)
    return done


DATA = ["adult", "nursery", "gss", "loan", "location30", "scene", "cal500", "wq", "oes97"]


@makes("data/{}", DATA)
def read_data_set(name):
    """A data set of the papers, its schema and hierarchies, and what is proposed for it."""
    done = command(f"datasets {name} --out {name}.csv --json", f"{name}.toml")
    text = Path(f"{name}.csv").read_bytes()
    done["table"] = Data({"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()})
    return done


# Writing and comparing


def make(name, root, keep, known):
    """The hashes of an artefact, made in a folder of its own, and its keys."""
    folder = root / name.replace("/", "+")
    folder.mkdir()
    with chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = plain(ARTEFACTS[name]())
    if keep is not None:
        path = keep / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(in_full(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    keys, members = keys_of(content), members_of(content)
    compared = content if known is None else with_keys(content, known)
    hashes = {"values": digest(without_words(compared)), "words": digest(in_full(content))}
    return hashes | ({"members": members} if members else {}), keys


def make_all(names, keep=None, known=None):
    """The hashes of all artefacts of these names, their keys, and those that could not be made."""
    made, keys, failed = {}, set(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            begun, used = time.perf_counter(), time.process_time()
            try:
                made[name], own = make(name, Path(folder), keep, known)
                keys |= own
            except Exception:
                failed.append(name)
                traceback.print_exc()
            spent = f"{time.perf_counter() - begun:6.2f} s, {time.process_time() - used:6.2f} s of CPU"
            print(f"{spent}  {name}", file=sys.stderr, flush=True)
    return made, keys, failed


def is_wanted(name, pattern, without_spark):
    """Whether an artefact is asked for, and can be made here."""
    if name.startswith("data/") and not os.environ.get("SHOAL_DATA"):
        return False
    if name.startswith("spark/") and without_spark:
        return False
    return fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(name, f"*{pattern}*")


def differs(before, now):
    """Whether an artefact is another one for more than its words."""
    return before["values"] != now["values"] or not set(before.get("members", ())) <= set(now.get("members", ()))


def compare(before, made):
    """Print what differs; whether values do, or something is missing."""
    changed = [name for name in made if name in before and differs(before[name], made[name])]
    worded = [name for name in made if name in before and made[name]["words"] != before[name]["words"]]
    missing = [name for name in before if name not in made]
    for name in changed:
        lost = set(before[name].get("members", ())) - set(made[name].get("members", ()))
        print(f"VALUES DIFFER: {name}" + (f" (without {', '.join(sorted(lost))})" if lost else ""))
    for what, names in (
        ("missing", missing),
        ("only words differ", [name for name in worded if name not in changed]),
        ("new", [name for name in made if name not in before]),
    ):
        for name in names:
            print(f"{what}: {name}")
    print(f"{len(made)} artefacts compared: values of {len(changed)} differ, {len(missing)} are missing")
    return bool(changed or missing)


def settle_surroundings():
    """Let nothing outside decide what is shown, such as the width of a terminal; paths hold in every folder."""
    os.environ["COLUMNS"] = "120"
    for name in {"PYTHONPATH", "SHOAL_DATA"} & os.environ.keys():
        paths = os.environ[name].split(os.pathsep)
        os.environ[name] = os.pathsep.join(str(Path(path).resolve()) for path in paths if path)
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "NO_COLOR", "CLICOLOR_FORCE"):
        os.environ.pop(name, None)


def main():
    """Make artefacts, and write or compare their hashes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the hashes of what is made")
    parser.add_argument("--compare", metavar="FILE", type=Path, help="compare what is made with what was written")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="artefacts whose names hold this")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="write what is made as files, too")
    parser.add_argument("--without-spark", action="store_true", help="pass over what needs Spark")
    asked = parser.parse_args()
    settle_surroundings()
    print(f"shoal is {Path(shoal.__file__).parent}", file=sys.stderr)
    wanted = partial(is_wanted, pattern=asked.only, without_spark=asked.without_spark)
    stored = json.loads(asked.compare.read_text()) if asked.compare else {}
    known = set(stored.pop(KEYS)) if stored else None
    keep = None if asked.keep is None else asked.keep.resolve()
    made, keys, failed = make_all(filter(wanted, ARTEFACTS), keep, known)
    for name in failed:
        print(f"could not be made: {name}")
    changed = False
    if asked.compare:
        for key in sorted(keys - known):
            print(f"more is said: {key}")
        changed = compare({name: stored[name] for name in filter(wanted, stored)}, made)
    if asked.write and not failed:
        rows = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in sorted((made | {KEYS: sorted(keys)}).items())]
        asked.write.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        print(f"{len(made)} artefacts written")
    return int(bool(failed) or changed)


if __name__ == "__main__":
    sys.exit(main())
