#!/usr/bin/env bats
# quickstart.bats: the last lines of "quickstart check", over a tree whose make only records results of tests.

load setup.bash

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    mkdir -p bin m4 tests/run
    cp "$HVD_SOURCE/quickstart" .
    touch configure.ac m4/hvd_none.m4 config.status
    printf '#!/bin/sh\ntouch Makefile\n' | tee autogen.sh >configure
    # each package is installed
    printf '#!/bin/sh\necho installed\n' >bin/dpkg-query
    # "make check" ends with the status in the file status, and leaves the results that the test has put into results
    cat >bin/make <<'END'
#!/bin/sh
echo "make $*"
for last; do :; done
[ "$last" = check ] || exit 0
cp -r results/. tests/
exit $(cat status)
END
    chmod +x autogen.sh configure bin/dpkg-query bin/make
    mkdir -p results/run
    unset MAKEFLAGS
    PATH=$PWD/bin:$PATH
}

# result NAME RESULT...: the record of a test with the results of its cases
result() {
    local name=$1 outcome global=PASS
    shift
    for outcome in "$@"; do
        echo ":test-result: $outcome a case"
        [ "$outcome" != FAIL ] || global=FAIL
    done >"results/run/$name.trs"
    echo ":global-test-result: $global" >>"results/run/$name.trs"
}

@test "the last line counts cases, and tests run side by side" {
    result good PASS PASS SKIP
    echo 0 >status
    echo ':test-result: FAIL of an earlier run' >tests/run/gone.trs
    run ./quickstart check
    [ "$status" -eq 0 ]
    has 'minutes on two idle cores'
    has "make --no-print-directory -j$((2 * $(getconf _NPROCESSORS_ONLN))) check"
    [ "${lines[-1]}" = '2 passed, 0 failed, 1 skipped' ]
}

@test "tests that failed are named, with their logs and the command that runs one" {
    result good PASS
    result bad PASS FAIL FAIL
    result worse FAIL
    echo 2 >status
    run ./quickstart check
    [ "$status" -eq 2 ]
    has "tests/run/bad failed: tests/run/bad.log says how, and 'make check TEST_LOGS=tests/run/bad.log' runs only this test"
    [ "${lines[-1]}" = '2 passed, 3 failed, 0 skipped: tests/run/bad tests/run/worse' ]
}

@test "a make that fails before the tests is not taken for failed tests, and MAKEFLAGS decide how many run" {
    echo 2 >status
    MAKEFLAGS=-j3 run ./quickstart check
    [ "$status" -eq 1 ]
    has 'make --no-print-directory check'
    has '0 passed, 0 failed, 0 skipped'
    has 'make check failed, but no test did: its output above says why'
}
