"""The table in hvd/_abi.py is hvd.h: the C compiler compares them."""
import ctypes
import os
import shlex
import shutil
import subprocess

import pytest

import hvd
from hvd import _abi

SOURCE = os.environ.get("HVD_SOURCE", os.path.join(os.path.dirname(__file__), "..", ".."))
HEADER = os.path.join(SOURCE, "core", "hvd.h")
with_header = pytest.mark.skipif(
    not os.path.exists(HEADER), reason="%s is not here; the bundle for GPUs has none" % HEADER
)


def compile_c(text, folder):
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("there is no C compiler")
    path = folder / "table.c"
    path.write_text("#include <stddef.h>\n#include <hvd.h>\n" + text)
    command = compiler + [
        "-Wall",
        "-Wextra",
        "-Wswitch",
        "-Werror",
        "-fsyntax-only",
        "-I" + SOURCE + "/core",
        str(path),
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True
    )
    return done.returncode, done.stdout


def table():
    """C that compiles only if the table is right, and has every enumerator."""
    lines = []
    for kind, values in _abi.ENUMS.items():
        for name, value in values.items():
            lines.append('_Static_assert(%s == %d, "%s");' % (name, value, name))
        cases = " ".join("case %s:" % name for name in values)
        lines.append(
            "int all_%s(enum %s e); int all_%s(enum %s e) { switch (e) { %s return 1; } return 0; }"
            % (kind, kind, kind, kind, cases)
        )
    for name, value in _abi.CONSTANTS.items():
        lines.append('_Static_assert(%s == %d, "%s");' % (name, value, name))
    for name, struct in _abi.STRUCTS.items():
        lines.append(
            '_Static_assert(sizeof(struct %s) == %d, "%s");' % (name, ctypes.sizeof(struct), name)
        )
        for field, _ in struct._fields_:
            member = getattr(struct, field)
            lines.append(
                '_Static_assert(offsetof(struct %s, %s) == %d, "%s.%s");'
                % (name, field, member.offset, name, field)
            )
            lines.append(
                '_Static_assert(sizeof(((struct %s *)0)->%s) == %d, "%s.%s");'
                % (name, field, member.size, name, field)
            )
    for name, (result, arguments) in _abi.PROTOTYPES.items():
        lines.append("%s %s(%s);" % (result, name, ", ".join(arguments) or "void"))
    return "\n".join(lines) + "\n"


@with_header
def test_table_is_the_header(tmp_path):
    status, output = compile_c(table(), tmp_path)
    assert status == 0, output


@with_header
@pytest.mark.parametrize(
    "old, new",
    [
        ("HVD_FLOAT16 == 8", "HVD_FLOAT16 == 9"),
        ("case HVD_BOOL:", ""),
        ("hvd_set_remove(hvd_set)", "hvd_set_remove(double)"),
        ("offsetof(struct hvd_result, data) == 24", "offsetof(struct hvd_result, data) == 16"),
    ],
)
def test_a_change_is_noticed(tmp_path, old, new):
    changed = table().replace(old, new)
    assert changed != table()
    status, _ = compile_c(changed, tmp_path)
    assert status != 0


@with_header
def test_every_call_is_in_the_table():
    with open(HEADER) as file:
        words = set(file.read().replace("(", " ( ").split("HVD_API ")[1:])
    declared = {text.split(" ( ")[0].split()[-1].lstrip("*") for text in words if " ( " in text}
    declared = {name for name in declared if name.startswith("hvd_")}
    assert declared == set(_abi.PROTOTYPES)


def test_packed_tensor_is_the_struct():
    import struct

    assert struct.calcsize(_abi.TENSOR_FORMAT) == ctypes.sizeof(_abi.Tensor)


def test_version():
    assert hvd.version() == hvd.__version__
