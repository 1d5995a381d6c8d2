"""The package as text: its Python is that of 3.8, whatever Python runs the tests, and its
docstrings are in REFERENCE.md."""
import ast
import importlib.util
import os
import subprocess
import sys

import pytest

import hvd

PACKAGE = os.path.dirname(hvd.__file__)
FOLDERS = [
    PACKAGE,
    os.path.join(PACKAGE, "torch"),
    os.path.join(PACKAGE, "torch", "elastic"),
    os.path.join(PACKAGE, "..", "compat", "horovod"),
    os.path.join(PACKAGE, "..", "compat", "horovod", "common"),
    os.path.join(PACKAGE, "..", "compat", "horovod", "runner"),
    os.path.join(PACKAGE, "..", "compat", "horovod", "runner", "elastic"),
    os.path.join(PACKAGE, "..", "compat", "horovod", "torch"),
    os.path.join(PACKAGE, "..", "..", "examples"),
]
FILES = [
    os.path.join(folder, name)
    for folder in FOLDERS
    if os.path.isdir(folder)
    for name in sorted(os.listdir(folder))
    if name.endswith(".py")
]
# what came after 3.8
LATER_MODULES = {"zoneinfo", "tomllib", "graphlib"}
LATER_METHODS = {"removeprefix", "removesuffix", "is_relative_to", "pairwise", "lcm", "bit_count"}
GENERIC_SINCE_3_9 = {"list", "dict", "tuple", "set", "frozenset", "type", "deque"}


def parsed(path):
    with open(path) as file:
        return ast.parse(file.read(), path, feature_version=(3, 8))


def later_names(tree):
    """Uses of what the library of Python 3.8 does not have, and of list[int]."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found = {each.name for each in node.names} | {getattr(node, "module", None)}
            yield from found & (LATER_MODULES | LATER_METHODS)
        elif isinstance(node, ast.Attribute) and node.attr in LATER_METHODS:
            yield node.attr
        elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in GENERIC_SINCE_3_9:
            yield node.value.id


@pytest.mark.parametrize("path", FILES, ids=lambda path: os.path.relpath(path, PACKAGE))
def test_runs_on_python_3_8(path):
    assert list(later_names(parsed(path))) == []


@pytest.mark.parametrize(
    "text",
    [
        "match x:\n    case 1: pass",
        "try: pass\nexcept* ValueError: pass",
    ],
)
def test_newer_syntax_is_noticed(text):
    if sys.version_info < (3, 11):
        pytest.skip("this Python does not know it either")
    with pytest.raises(SyntaxError):
        ast.parse(text, feature_version=(3, 8))


@pytest.mark.parametrize(
    "text", ["a.removeprefix('x')", "x: list[int] = []", "from itertools import pairwise",
             "import tomllib"]
)  # fmt: skip
def test_newer_names_are_noticed(text):
    assert list(later_names(ast.parse(text)))


def test_reference_is_that_of_the_docstrings():
    pytest.importorskip("torch")
    folder = os.path.join(PACKAGE, "..")
    if not os.path.exists(os.path.join(folder, "make_reference.py")):
        pytest.skip("make_reference.py is not beside the package, as in the bundle for GPUs")
    spec = importlib.util.spec_from_file_location(
        "make_reference", os.path.join(folder, "make_reference.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with open(os.path.join(folder, "REFERENCE.md")) as file:
        written = file.read()
    assert module.reference() == written, "python3 python/make_reference.py >python/REFERENCE.md"


def test_a_piece_of_the_backend_can_be_imported_first():
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", "import hvd._collectives"], check=True, timeout=100)
