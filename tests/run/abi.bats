#!/usr/bin/env bats
# The binary interface of libhvd: exported symbols, enumerators and the layout of structs are those of the kept file, so
# that a change of it is a decision. tests/python/test_abi.py compares the table that this prints with hvd.h.

load setup

kept=$HVD_SOURCE/tests/data/abi/libhvd.so.0

print_interface() {
    local nm=${NM:-nm}
    "$nm" --dynamic --defined-only --format=posix "$HVD_BUILD/core/.libs/libhvd.so" | awk '$1 ~ /^hvd_/ { print "symbol", $1 }' | sort
    "${PYTHON:-python3}" - "$HVD_SOURCE/python/hvd/_abi.py" <<'PYTHON'
import ctypes
import runpy
import sys

table = runpy.run_path(sys.argv[1])
for kind, values in sorted(table["ENUMS"].items()):
    for name, value in sorted(values.items(), key=lambda item: item[1]):
        print("enum", kind, name, value)
for name, value in sorted(table["CONSTANTS"].items()):
    print("constant", name, value)
for name, struct in sorted(table["STRUCTS"].items()):
    print("struct", name, ctypes.sizeof(struct), "bytes")
    for field, _ in struct._fields_:
        place = getattr(struct, field)
        print("struct", name, field, "at", place.offset, "of", place.size, "bytes")
for name, (result, arguments) in sorted(table["PROTOTYPES"].items()):
    print("call", result, "%s(%s)" % (name, ", ".join(arguments) or "void"))
PYTHON
}

@test "the binary interface is the kept one" {
    command -v "${NM:-nm}" >/dev/null || skip 'nm is not installed'
    command -v "${PYTHON:-python3}" >/dev/null || skip 'python3 is not installed'
    [ "$(uname -m)" = x86_64 ] || skip 'the kept layouts are those of x86-64'
    readelf -d "$HVD_BUILD/core/.libs/libhvd.so" | grep -qE 'NEEDED.*lib(a|t|ub)san' && skip 'sanitizers export more'
    print_interface >"$BATS_TEST_TMPDIR/now"
    [ "$(grep -c '^symbol hvd_' "$BATS_TEST_TMPDIR/now")" -gt 50 ]
    [ "${ABI_GOLDEN:-}" != write ] || cp "$BATS_TEST_TMPDIR/now" "$kept"
    diff "$kept" "$BATS_TEST_TMPDIR/now" || {
        echo 'the binary interface has changed: docs/versioning.md says what that means for the version, configure.ac how'
        echo 'to number the library; ABI_GOLDEN=write makes this the kept interface'
        return 1
    }
}
