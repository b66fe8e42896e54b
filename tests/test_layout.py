"""The layout of the package: every module in a package, no private name across packages, no class name twice."""

import ast
from collections import defaultdict
from pathlib import Path

import shoal

SOURCE = Path(shoal.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
OWNERS = {"self", "cls", "super"}


def package_of(path):
    """Name of the package right under shoal that a module is in, or of the module itself."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path):
    """Yield the module, and the name taken from it, of each import of the package's own modules."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "shoal":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "shoal")


def is_private(name):
    return name.startswith("_") and not name.endswith("__") and name != "_kernels"


def test_no_private_name_crosses_a_package():
    crossed = []
    for path in MODULES:
        for module, name in imports_of(path):
            parts = [part for part in (*module.split("."), name) if part]
            if package_of(path) not in parts[1:2] and any(is_private(part) for part in parts[1:]):
                crossed.append(f"{path.relative_to(SOURCE)}: {module} {name}")
    assert not crossed


def test_no_private_attribute_is_read_from_outside():
    """Attributes with an underscore are those of the object itself, or of one of the same module."""
    defined, read = defaultdict(set), []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined[path].add(node.name)
            elif isinstance(node, ast.Attribute):
                owner = node.value.id if isinstance(node.value, ast.Name) else ""
                if isinstance(node.ctx, ast.Store) or owner in OWNERS:
                    defined[path].add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                defined[path].add(node.target.id)
            elif isinstance(node, ast.Assign):
                defined[path] |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    of_package = defaultdict(set)
    for path, names in defined.items():
        of_package[package_of(path)] |= names
    ours = {name for names in defined.values() for name in names if is_private(name)} - NAMED_TUPLES
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Attribute) or node.attr not in ours:
                continue
            if node.attr not in of_package[package_of(path)]:
                read.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {ast.unparse(node)}")
    assert not read


NAMED_TUPLES = {"_asdict", "_replace", "_fields", "_make"}


def test_no_class_name_has_two_meanings():
    found = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(SOURCE)))
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


def test_few_modules_lie_beside_the_packages():
    beside = [path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__")]
    assert len(beside) <= 5, beside


def test_every_package_says_what_is_in_it():
    for path in SOURCE.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert text, f"{path.parent.name} has no docstring"


def test_tests_lie_where_the_package_does():
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    folders = {path.name for path in Path(__file__).parent.iterdir() if path.is_dir() and any(path.glob("test_*.py"))}
    assert folders - packages <= {"experiments"}
    assert packages - folders <= {"_kernels"}
