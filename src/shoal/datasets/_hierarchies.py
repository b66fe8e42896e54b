"""Hierarchies of the census attributes, for the synthetic census and for UCI Adult, whose spelling they follow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.data.hierarchy.hierarchy import Hierarchy

TREES: Mapping[str, Any] = {
    "workclass": {
        "Employed": {
            "Government": ["Federal-gov", "State-gov", "Local-gov"],
            "Private": None,
            "Self-employed": ["Self-emp-inc", "Self-emp-not-inc"],
        },
        "Unpaid": ["Without-pay", "Never-worked"],
    },
    "education": {
        "No diploma": {
            "Elementary school": ["Preschool", "1st-4th", "5th-6th", "7th-8th"],
            "Some high school": ["9th", "10th", "11th", "12th"],
        },
        "Diploma": {"High school": ["HS-grad", "Some-college"], "Associate": ["Assoc-voc", "Assoc-acdm"]},
        "Degree": {"Bachelors": None, "Advanced": ["Masters", "Prof-school", "Doctorate"]},
    },
    "marital-status": {
        "Single": {"Never-married": None, "Formerly married": ["Separated", "Divorced", "Widowed"]},
        "Married": {
            "Spouse present": ["Married-civ-spouse", "Married-AF-spouse"],
            "Married-spouse-absent": None,
        },
    },
    "occupation": {
        "White-collar": {
            "Management": ["Exec-managerial", "Prof-specialty"],
            "Office": ["Tech-support", "Adm-clerical", "Sales"],
        },
        "Blue-collar": {
            "Skilled": ["Craft-repair", "Machine-op-inspct", "Transport-moving"],
            "Unskilled": ["Handlers-cleaners", "Farming-fishing"],
        },
        "Service": {"Personal": ["Other-service", "Priv-house-serv"], "Public": ["Protective-serv", "Armed-Forces"]},
    },
    "relationship": {
        "Spouse": ["Husband", "Wife"],
        "Relative": ["Own-child", "Other-relative"],
        "Head or alone": ["Unmarried", "Not-in-family"],
    },
    "race": ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"],
    "sex": ["Female", "Male"],
    "native-country": {
        "America": {
            "North America": ["United-States", "Canada", "Outlying-US(Guam-USVI-etc)"],
            "Caribbean": ["Puerto-Rico", "Cuba", "Jamaica", "Dominican-Republic", "Haiti", "Trinadad&Tobago"],
            "Central America": ["Mexico", "El-Salvador", "Guatemala", "Honduras", "Nicaragua"],
            "South America": ["Columbia", "Ecuador", "Peru"],
        },
        "Europe": {
            "Western Europe": ["England", "Scotland", "Ireland", "France", "Germany", "Holand-Netherlands"],
            "Southern Europe": ["Italy", "Greece", "Portugal"],
            "Eastern Europe": ["Poland", "Hungary", "Yugoslavia"],
        },
        "Asia": {
            # 98 of the 101 people from "South" in Adult are Asian-Pac-Islander: the rest of the name, Korea, is lost.
            "East Asia": ["China", "Hong", "Japan", "South", "Taiwan"],
            "South-East Asia": ["Philippines", "Vietnam", "Thailand", "Cambodia", "Laos"],
            "South and West Asia": ["India", "Iran"],
        },
    },
    "condition": {
        "Healthy": None,
        "Physical": {
            "Circulation": ["Hypertension", "Heart-disease"],
            "Metabolism": ["Diabetes", "Obesity"],
            "Breathing": ["Asthma", "COPD"],
            "Movement": ["Back-pain", "Arthritis"],
            "Cancer": None,
        },
        "Mental": ["Depression", "Anxiety"],
    },
}


@cache
def embedded(name: str) -> Hierarchy:
    """Return the embedded hierarchy of a census attribute."""
    from shoal.data.hierarchy.hierarchy import Hierarchy

    return Hierarchy.from_dict(TREES[name], name=name)
