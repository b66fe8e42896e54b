"""UCI Nursery, the General Social Survey on marital happiness, and Lending Club's loans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from shoal.datasets import _files
from shoal.datasets._dataset import Dataset, FrameKind, check_kind, convert
from shoal.parameters import Choice

if TYPE_CHECKING:
    import polars

    from shoal.data.hierarchy.hierarchy import Hierarchy

NURSERY: Mapping[str, tuple[str, ...]] = {
    "parents": ("usual", "pretentious", "great_pret"),
    "has_nurs": ("proper", "less_proper", "improper", "critical", "very_crit"),
    "form": ("complete", "completed", "incomplete", "foster"),
    "children": ("1", "2", "3", "more"),
    "housing": ("convenient", "less_conv", "critical"),
    "finance": ("convenient", "inconv"),
    "social": ("nonprob", "slightly_prob", "problematic"),
    "health": ("recommended", "priority", "not_recom"),
    "class": ("not_recom", "recommend", "very_recom", "priority", "spec_prior"),
}


def fetch_nursery(
    *,
    keep_scarce: bool = False,
    sensitive: str | None = "social",
    boolean_social: bool = False,
    frame: FrameKind = "polars",
) -> Dataset:
    """Fetch UCI Nursery: applications to nursery schools in Ljubljana, ranked by a decision model.

    Eight attributes, all ordinal in the order of the data set's description, and the target ``class``. As in
    privacy-guided training (Goldsteen et al. 2020) the two rows of the scarce class ``recommend`` are left out:
    12,958 rows.

    Parameters
    ----------
    keep_scarce : bool
        Keep these rows: 12,960 rows, the full cross product of the attributes.
    sensitive : str or None
        The sensitive attribute; the others are quasi-identifiers. None makes all eight quasi-identifiers, as in
        accuracy-guided anonymization.
    boolean_social : bool
        Make ``social`` a Boolean, true where it is ``problematic``, as for the attribute inference attacks of both
        papers.
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``.
    """
    import polars as pl

    from shoal.data.schema import Attribute, Schema

    check_kind(frame)
    (Choice([name for name in NURSERY if name != "class"]) | None).check("sensitive", sensitive)
    content = _files.read("nursery/nursery.data").strip()
    table = pl.read_csv(content, has_header=False, schema=dict.fromkeys(NURSERY, pl.String))
    if not keep_scarce:
        table = table.filter(pl.col("class") != "recommend")
    if boolean_social:
        table = table.with_columns(pl.col("social") == "problematic")

    def attribute(name: str) -> Attribute:
        role = {"class": "target", sensitive: "sensitive"}.get(name, "quasi")
        if name == "class" or (boolean_social and name == "social"):
            return Attribute(name, role=role, kind="nominal")
        return Attribute(name, role=role, kind="ordinal", order=NURSERY[name])

    return Dataset(convert(table, frame), Schema(attribute(name) for name in NURSERY))


GSS_HAPPINESS = ("NOT TOO HAPPY", "PRETTY HAPPY", "VERY HAPPY")
GSS_LABEL = "Happiness of marriage"
GSS_ROLES = {
    "id": "identifier",
    "Happiness level": "sensitive",
    "watched x-rated movies in the last year": "sensitive",
    GSS_LABEL: "target",
}


def fetch_gss(
    *,
    labelled: bool = True,
    keep_scarce: bool = True,
    boolean_happiness: bool = False,
    frame: FrameKind = "polars",
) -> Dataset:
    """Fetch the General Social Survey's extract on marital happiness, 1972-2006.

    Eleven columns: the target ``Happiness of marriage``, two sensitive answers (``Happiness level`` and the question
    on x-rated movies), the respondent's number in the survey of a year as identifier, and seven quasi-identifiers. As
    in privacy-guided training (Goldsteen et al. 2020) only rows with the label are taken: 24,455. The top codes
    ``89 OR OLDER`` and ``EIGHT OR MORE`` become the numbers 89 and 8; other missing answers stay missing.

    Parameters
    ----------
    labelled : bool
        False gives all 51,020 rows, about half of them with a missing label.
    keep_scarce : bool
        False leaves out the scarce label ``NOT TOO HAPPY`` (719 rows; 23,736 stay). The paper states that scarce labels
        were left out, but its count includes this one.
    boolean_happiness : bool
        Make ``Happiness level`` a Boolean, true where it is ``VERY HAPPY``, and leave out rows without it (24,389
        stay), as for the paper's model inversion attack.
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``.
    """
    import polars as pl

    from shoal.data.schema import Attribute, Schema

    check_kind(frame)
    table = pl.read_csv(_files.read("gss/GSShappiness.csv"), infer_schema=False).with_columns(
        pl.col("year", "id").cast(pl.Int64),
        pl.col("age").str.replace("89 OR OLDER", "89").cast(pl.Int64),
        pl.col("children").str.replace("EIGHT OR MORE", "8").cast(pl.Int64),
    )
    if labelled:
        table = table.filter(pl.col(GSS_LABEL).is_not_null())
    if not keep_scarce:
        table = table.filter(pl.col(GSS_LABEL).ne_missing(GSS_HAPPINESS[0]))
    if boolean_happiness:
        happy = pl.col("Happiness level")
        table = table.filter(happy.is_not_null()).with_columns(happy == "VERY HAPPY")

    def attribute(name: str) -> Attribute:
        role = GSS_ROLES.get(name, "quasi")
        if table[name].dtype == pl.Int64:
            return Attribute(name, role=role, kind="numeric")
        if name == "Happiness level" and not boolean_happiness:
            return Attribute(name, role=role, kind="ordinal", order=GSS_HAPPINESS)
        return Attribute(name, role=role, kind="nominal")

    return Dataset(convert(table, frame), Schema(attribute(name) for name in table.columns))


LOAN_QUASI = (
    "emp_length", "home_ownership", "annual_inc", "zip_code", "purpose", "dti", "delinq_2yrs", "inq_last_6mths",
    "mths_since_last_delinq", "open_acc", "total_acc", "mths_since_last_record", "pub_rec", "revol_bal", "revol_util",
    "hardship_flag", "last_pymnt_amnt", "installment",
)  # fmt: skip
LOAN_FLAGS = ("delinq_2yrs_zero", "pub_rec_zero")
LOAN_ROLES = {**dict.fromkeys((*LOAN_QUASI, *LOAN_FLAGS), "quasi"), "loan_status": "target", "id": "identifier"}
LOAN_FILES = {
    "2007-2011": "lendingclub_2007_2011",
    "2007-2015-sample": "lendingclub_2007_2015_sample",
    "119987": "lendingclub_119987_derived",
    "2015-small": "lendingclub_2015_allcolumns_small",
}
LOAN_REPEATED = ("outcome", "purpose_", "home_", "emp_len_")
EMPLOYMENT = ("< 1 year", "1 year", *(f"{years} years" for years in range(2, 10)), "10+ years")
PURPOSES = {
    "Debt": ["debt_consolidation", "credit_card"],
    "Home": ["home_improvement", "house", "moving", "renewable_energy"],
    "Purchase": ["car", "major_purchase", "vacation", "wedding"],
    "Need": ["medical", "educational"],
    "small_business": None,
    "other": None,
}
LoanVersion = Literal["2007-2011", "2007-2015-sample", "119987", "2015-small"]


def fetch_loan(version: LoanVersion = "2007-2011", *, binary: bool = False, frame: FrameKind = "polars") -> Dataset:
    """Fetch loans of Lending Club: four partial extracts, none of them the one that the paper used.

    Accuracy-guided anonymization (Goldsteen et al. 2020) used 421,095 loans of 2015 with 144 columns; its publisher
    took that file down, so the figures cannot be reproduced. These four have no public source in this form either:
    ``SHOAL_DATA`` must name a folder with them. Of the paper's 18 quasi-identifiers, those that a file has are
    quasi-identifiers here; ``loan_status`` is the target, ``id`` an identifier, and everything else keeps the role
    "other", as in the paper.

    Parameters
    ----------
    version : {"2007-2011", "2007-2015-sample", "119987", "2015-small"}
        - ``2007-2011``: all 42,535 loans of these years, 36 columns, all 18 quasi-identifiers; to study methods.
        - ``2007-2015-sample``: 39,238 of 887,379 loans, 37 columns, 11 quasi-identifiers; nearly half are of 2015.
        - ``119987``: 119,987 finished loans, recoded for a textbook (``emp_length`` in years), 15 columns (four that
          repeat others are left out), 8 quasi-identifiers and two flags that stand for ``delinq_2yrs`` and ``pub_rec``;
          for scale.
        - ``2015-small``: 1,680 loans of 2015 with all 146 columns; for the shape of the paper's file.
    binary : bool
        Keep only finished loans, ``Fully Paid`` or ``Charged Off`` (``Default`` counts as that).
    frame : {"polars", "pandas", "pyarrow"}
        Kind of the frame.

    Returns
    -------
    Dataset
        The named tuple ``(frame, schema)``. ``hardship_flag`` is the same in every row.
    """
    import polars as pl

    from shoal.data.schema import Attribute, Schema

    check_kind(frame)
    Choice(LOAN_FILES).check("version", version)
    content = _files.read(f"loan/{LOAN_FILES[version]}.csv")
    table = pl.read_csv(content, infer_schema_length=None, null_values=["", "n/a"])
    table = table.drop(LOAN_REPEATED, strict=False).rename({"status": "loan_status"}, strict=False)
    table = table.with_columns(pl.col(pl.String).str.strip_chars())
    if binary:
        status = pl.col("loan_status").str.replace("^.*Status:", "").replace("Default", "Charged Off")
        table = table.with_columns(status).filter(pl.col("loan_status").is_in(["Fully Paid", "Charged Off"]))

    def attribute(name: str) -> Attribute:
        role = LOAN_ROLES.get(name, "other")
        if name == "emp_length" and table[name].dtype == pl.String:
            return Attribute(name, role=role, kind="ordinal", order=EMPLOYMENT)
        kind = "numeric" if table[name].dtype.is_numeric() and name not in LOAN_FLAGS else "nominal"
        return Attribute(name, role=role, kind=kind, hierarchy=_loan_hierarchy(name, table))

    return Dataset(convert(table, frame), Schema(attribute(name) for name in table.columns))


def _loan_hierarchy(name: str, table: polars.DataFrame) -> Hierarchy | None:
    from shoal.data.hierarchy.hierarchy import Hierarchy

    if name == "purpose":
        return Hierarchy.from_dict(PURPOSES, name=name)
    if name == "zip_code":
        return Hierarchy.from_prefix(table[name].drop_nulls().unique().sort(), keep=(2, 1), name=name)
    return None
