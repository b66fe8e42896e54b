"""The texts of the package are plain technical English: a list of idioms is refused."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

import shoal

SOURCE = Path(shoal.__file__).parent
PACKAGES = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())

IDIOMS = {
    r"\bmend(s|ed|ing)?\b": "fix",
    r"(?<!there )\b(is|are) (?-i:none)\b(?! of)": "say what is missing or not allowed",
    r"\bwho (guesses|learns|knows)\b": "an adversary, guessing without access",
    r"\bone (a|for each) core\b": "all cores",
    r"\bone (line|row|value|number|file) an? \w+": "one ... per ...",
    r"\b(told|tells?|telling) \w*\s?apart\b": "distinguish",
    r"\btak(e|es|en|ing) (it |them )?along\b": "export",
    r"\bwhat is no \w+": "non-...",
    r"\bnobody's\b": "no one promises",
    r"\bpeople who are nobody\b": "fictional people",
    r"\bcounts? one half\b": "balanced accuracy",
    r"\bten thousand million\b": "ten billion",
    r"\bfound at 1 %": "TPR at 1 % FPR",
    r"\bthe other way (a)?round\b": "say which",
    r"\bone behind the other\b": "concatenated",
    r"\bof several,? (it is )?the\b": "ties go to ..., ... if tied",
    r"\bkeeps? (a|the|every|all|no|any|its) (rule|constraint|bound)s?\b": "satisfy",
    r"(?<!there )\b(is|are) no (whole |plain |finite )?(number|quasi|feature|column|row|table|file)": "is not a ...",
}
QUESTION_WORDS = ("What ", "Who ", "Whether ")


def texts_of(path):
    """Docstrings, other strings and comments of a module, with their lines; all of a template."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate((re.sub(r"{[%{#].*?[%}#]}|<[^>]*>", " ", line) for line in source.split("\n")), 1)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def sentences_of(text):
    return [part.strip() for part in re.split(r"(?<=[.!?:;])\s+|\n\s*\n|\n(?=\s*[-*] )", text)]


def faults_in(path):
    for line, text in texts_of(path):
        flat = re.sub(r"\s+", " ", text)
        for idiom, better in IDIOMS.items():
            for found in re.finditer(idiom, flat, re.IGNORECASE):
                yield f"{path.name}:{line}: {found.group()!r}: write {better!r}"
        for sentence in sentences_of(text):
            if sentence.startswith(QUESTION_WORDS) and not sentence.rstrip('"').endswith("?"):
                yield f"{path.name}:{line}: no sentence begins with a question word: {sentence[:60]!r}"


@pytest.mark.parametrize("package", [".", *PACKAGES])
def test_texts_use_no_idioms(package):
    files = sorted(SOURCE.glob("*.py")) if package == "." else sorted((SOURCE / package).rglob("*"))
    faults = [fault for path in files if path.suffix in (".py", ".j2") for fault in faults_in(path)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("text", "n_faults"),
    [
        ("# What is left of S to who learns it from cleaned rows.", 2),
        ('"""Return the labels of the rows."""', 0),
        ('"what a person sees: which one?"', 0),
        ('"Who may see it?"', 0),
        ('"the labels are none"', 1),
        ('"mend it"', 1),
        ('"none of these is allowed"', 0),
        ('"-1 if there is none; ``guard`` is None if only the size matters"', 0),
        ('"there is no column of that name: no number is missing"', 0),
        ('"which is no quasi-identifier"', 1),
    ],
)
def test_idioms_are_found(tmp_path, text, n_faults):
    path = tmp_path / "module.py"
    path.write_text(text + "\n")
    assert len(list(faults_in(path))) == n_faults
