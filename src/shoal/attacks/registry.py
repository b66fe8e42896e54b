"""The registry of attacks: the risks of an audit, the attacks on each, and how their results are judged and worded.

A public module of this package adds an attack by ``@attack_on(risk, name, ...)``, on an :class:`AuditRisk` of its own
or of another module. Audits, their pages, numbers and tables iterate over the registry: no other file names the attack.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from shoal import attacks as package
from shoal.attacks.results import AttackResult, corrected
from shoal.data.schema import Schema
from shoal.errors import ShoalError, reason
from shoal.reports.report import show_share


@dataclass(frozen=True)
class AuditInput:
    """A model under audit, its rows, its release, and the limits of the audit."""

    model: Any
    schema: Schema
    features: list[str]
    """Columns that the model sees."""
    members: Any
    """Training rows with these columns."""
    controls: Any
    """Rows outside the training data with these columns."""
    y_members: np.ndarray
    y_controls: np.ndarray
    whole_members: Any
    """Training rows with all their columns."""
    whole_controls: Any
    released: Any
    """Release of the members, or None."""
    estimator: Any
    """Recipe of the model for reference models, or None."""
    attacks: Sequence[str] | None
    """Names of the attacks on membership to make; by default all that apply."""
    n_references: int
    n_jobs: int
    random_state: int
    deadline: float
    """Reading of :func:`time.perf_counter` at which the time limit ends."""

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.perf_counter()

    @property
    def tables(self) -> tuple[Any, Any, Any]:
        """Original table, release and control."""
        return self.whole_members, self.released, self.whole_controls

    @property
    def quasi(self) -> list[str]:
        """Names of the quasi-identifiers."""
        return [attribute.name for attribute in self.schema.quasi]


class Skipped(NamedTuple):
    """An attack that was not made, and the reason."""

    attack: str
    why: str


class RiskVerdict(NamedTuple):
    """The conclusion from all attacks on one risk."""

    risk: str
    found: bool
    """True if something clearly leaks."""
    sentence: str
    limits: str


class Element(NamedTuple):
    """An element by which Opinion 28/2024 of the European Data Protection Board has authorities judge a model."""

    name: str
    untested: str = "Not tested here."
    """Text where no attack answers it."""


MEMBERSHIP_ELEMENT = Element("Resistance to membership inference")
ATTRIBUTE_ELEMENT = Element("Resistance to attribute inference and model inversion")
RELEASE_ELEMENT = Element(
    "Singling out, linking and inference in the training data as released (also Opinion 05/2014 of the Article 29 "
    "Working Party)"
)
ELEMENTS = (
    MEMBERSHIP_ELEMENT,
    ATTRIBUTE_ELEMENT,
    RELEASE_ELEMENT,
    Element(
        "Regurgitation, exfiltration and reconstruction of training data",
        "Not tested here: a predictor of tables generates no rows, but its holder may try to reconstruct some.",
    ),
    Element(
        "Selection of sources, preparation and minimisation of the data, design of the model, measures on its outputs",
        "Not a matter of testing: document the measures, for example with the report of a release.",
    ),
)


def make_each(given: AuditInput, risk: AuditRisk, attribute: str) -> Iterator[AttackResult | Skipped]:
    """Make the attacks on a risk one by one, and skip those that raise."""
    for one in attacks_on(risk):
        try:
            made = one.run(given, attribute)
        except ShoalError as error:
            yield Skipped(risk.named(attribute), reason(error))
        else:
            yield from [made] if isinstance(made, AttackResult) else made


@dataclass(frozen=True, eq=False)
class AuditRisk:
    """A question about people that attacks answer together."""

    name: str
    """Key in results and numbers; ``{}`` stands for an attribute if each sensitive attribute is a risk of its own."""
    on: Literal["model", "release"]
    """Target of the attacks; those on releases are made where the audit is given one."""
    position: int
    """Place among the risks of an audit, in ascending order."""
    element: Element
    """The regulator's question that it answers."""
    baseline: str
    """Adversary that the attacks are compared with."""
    control: str
    """People on whom the attacks are repeated to separate leaks from general knowledge, or an empty text."""
    advantage: str
    """Definition of the advantage of an attack."""
    describe: Callable[[Finding], RiskVerdict]
    make: Callable[[AuditInput, AuditRisk, str], Iterable[AttackResult | Skipped]] = make_each
    """Function that makes the attacks."""

    def named(self, attribute: str) -> str:
        """Return the name of the risk for one attribute."""
        return self.name.format(attribute)

    def attributes(self, given: AuditInput) -> list[str]:
        """Return the attributes that it is about: an empty text for none, and an empty list if it does not apply."""
        if self.on == "release" and given.released is None:
            return []
        return [one.name for one in given.schema.sensitive] if "{}" in self.name else [""]


class Finding(NamedTuple):
    """The results of the attacks on one risk."""

    risk: AuditRisk
    attribute: str
    results: list[AttackResult]

    @property
    def name(self) -> str:
        """Name of the risk, with its attribute."""
        return self.risk.named(self.attribute)

    @property
    def verdict(self) -> RiskVerdict:
        """The conclusion from the results."""
        return self.risk.describe(self)


def release_risk(
    name: str,
    position: int,
    task: str,
    *,
    baseline: str,
    control: str = "people outside the release",
    advantage: str = "(accuracy - control) / (1 - control)",
) -> AuditRisk:
    """Return a risk of releases whose verdict states the accuracy of the strongest attack.

    Parameters
    ----------
    name, position, baseline, control, advantage
        See :class:`AuditRisk`.
    task : str
        Aim of the adversary, such as ``"link records of one person"``; ``{}`` stands for the attribute.
    """

    def describe(finding: Finding) -> RiskVerdict:
        strongest = max(finding.results, key=lambda one: one.advantage.value)
        clearly = corrected(strongest.advantage, len(finding.results)).low > 0
        helps = "helps" if clearly else "does not clearly help"
        rate = f"{strongest.attack} has an accuracy of {show_share(strongest.accuracy.value)}"
        if strongest.control is not None:
            rate += f", compared with {show_share(strongest.control.value)} on people outside the release"
        sentence = f"The release {helps} an adversary to {task.format(finding.attribute)}: {rate}."
        limits = "The adversary knew the original values of the named columns, and nothing else about a person."
        return RiskVerdict(finding.name, clearly, sentence, limits)

    return AuditRisk(name, "release", position, RELEASE_ELEMENT, baseline, control, advantage, describe)


@dataclass(frozen=True, eq=False)
class Attack:
    """One attack on a risk."""

    name: str
    risk: AuditRisk
    run: Callable[..., Any]
    """The attack itself; the arguments are those of all attacks on the risk."""
    view: str = ""
    """Information that the adversary has and the baseline lacks, where it is the same for all targets."""
    needs: tuple[str, ...] = ()
    """Requirements, by the names that all attacks on the risk use."""

    def why_not(self, lacking: Mapping[str, str]) -> str:
        """Return the reason why it does not apply, or an empty text; ``lacking`` explains each unmet requirement."""
        return next((lacking[need] for need in self.needs if need in lacking), "")


def attack_on(
    risk: AuditRisk, name: str, *, view: str = "", needs: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Attack]:
    """Turn a function of a public module of this package into an attack on a risk."""
    return lambda run: Attack(name, risk, run, view, needs)


def all_attacks() -> list[Attack]:
    """Return all attacks of the modules of this package, in the order of modules and of lines."""
    names = [one.name for one in pkgutil.iter_modules(package.__path__) if not one.name.startswith("_")]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    found = (value for module in modules for value in vars(module).values() if isinstance(value, Attack))
    return list(dict.fromkeys(found))  # a module may import attacks of another


def attacks_on(risk: AuditRisk) -> list[Attack]:
    """Return all attacks on a risk."""
    return [one for one in all_attacks() if one.risk is risk]


def risks() -> list[AuditRisk]:
    """Return the risks that attacks are registered for.

    >>> [one.name for one in risks()]  # doctest: +NORMALIZE_WHITESPACE
    ['membership', 'value of {}', 're-identification', 'singling out', 'linkability', '{} from the release']
    """
    return sorted(dict.fromkeys(one.risk for one in all_attacks()), key=lambda risk: risk.position)


def choose_attacks(
    risk: AuditRisk, asked: str | Sequence[str] | None, lacking: Mapping[str, str], *, skip: bool = False
) -> list[Attack]:
    """Return the attacks that are asked for by name, by default all that apply.

    Parameters
    ----------
    risk : AuditRisk
    asked : str or sequence of str, optional
    lacking : mapping
        The reason for each requirement that is not met.
    skip : bool
        Leave out attacks that do not apply instead of refusing them.
    """
    known = {one.name: one for one in attacks_on(risk)}
    if asked is None:
        asked, skip = list(known), True
    chosen = []
    for name in [asked] if isinstance(asked, str) else asked:
        if name not in known:
            raise ShoalError(f"There is no attack {name!r}: choose among {', '.join(known)}.")
        why = known[name].why_not(lacking)
        if why and not skip:
            raise ShoalError(f"The attack {name!r} does not apply, because {why}: leave it out.")
        if not why:
            chosen.append(known[name])
    return chosen
