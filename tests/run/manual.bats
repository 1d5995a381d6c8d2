#!/usr/bin/env bats
# The manual pages: clean, and complete where something else says what there is.

@test "mandoc has nothing to say about any page" {
    command -v mandoc >/dev/null || skip "mandoc is not installed"
    for page in "$HVD_SOURCE"/man/*.[1-8] "$HVD_BUILD/man/hvd.7"; do
        mandoc -Tlint -W warning "$page"
    done
}

@test "hvd(3) describes every call that libhvd exports, and no other" {
    nm -D --defined-only "$HVD_BUILD/core/.libs/libhvd.so" | awk '{ print $3 }' | sort >"$BATS_TEST_TMPDIR/exported"
    # hvd_vector is an inline function of the header
    sed -n 's/^\.F[no] \(hvd_[a-z_]*\).*/\1/p' "$HVD_SOURCE/man/hvd.3" | sort -u | grep -v '^hvd_vector$' >"$BATS_TEST_TMPDIR/described"
    [ -s "$BATS_TEST_TMPDIR/exported" ]
    diff "$BATS_TEST_TMPDIR/exported" "$BATS_TEST_TMPDIR/described"
    # its NAME section too
    sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \(hvd_[a-z_]*\).*/\1/p' "$HVD_SOURCE/man/hvd.3" | sort -u | grep -v '^hvd_vector$' |
        diff "$BATS_TEST_TMPDIR/exported" -
}

@test "hvd(3) describes every status, type and reduction of hvd.h" {
    pattern='\bHVD_(ERR_[A-Z_]+|OK|IN_PROGRESS|U?INT[0-9]+|B?FLOAT[0-9]+|SUM|AVERAGE|MAX_[A-Z]+)\b'
    grep -oE "$pattern" "$HVD_SOURCE/core/hvd.h" | sort -u >"$BATS_TEST_TMPDIR/declared"
    [ -s "$BATS_TEST_TMPDIR/declared" ]
    diff "$BATS_TEST_TMPDIR/declared" <(grep -E '^\.(It Bq )?Dv ' "$HVD_SOURCE/man/hvd.3" | grep -oE "$pattern" | sort -u)
}
