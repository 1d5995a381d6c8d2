# hvdrun.bash: tests of hvdrun begin with it: what starts it, and what looks for processes and files that it left.
# shellcheck disable=SC2034,SC2154 # what it sets is for the tests; and output, which bats sets

setup() {
    hvdrun_setup
}

hvdrun_setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    [ -x "$hvdrun" ] || skip "hvdrun was not built: configure found no PMIx"
    # every process that a test starts has this mark in its environment
    export HVDRUN_TEST_MARK="$BATS_SUITE_TMPDIR-$BATS_TEST_NUMBER-$$"
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    cd "$BATS_TEST_TMPDIR" || return 1
}

teardown() {
    hvdrun_teardown
}

hvdrun_teardown() {
    [ -n "${HVDRUN_TEST_MARK:-}" ] || return 0
    local left
    left=$(await_none marked)
    for pid in $left; do
        kill -9 "$pid" || true
    done
    [ -z "$left" ] || { echo "processes were left: $left"; return 1; }
    [ -z "$(ls -A "$TMPDIR")" ] || { ls -lR "$TMPDIR"; return 1; }
}

# Print the processes of this test, except those that run the test itself.
marked() {
    local file pid
    grep -slzxF "HVDRUN_TEST_MARK=$HVDRUN_TEST_MARK" /proc/[0-9]*/environ | while read -r file; do
        pid=${file#/proc/}
        pid=${pid%/environ}
        is_test_process "$pid" || echo "$pid"
    done
}

# Is the process the shell of the test, or one of its descendants?
is_test_process() {
    local pid=$1
    while [ "$pid" -gt 1 ]; do
        [ "$pid" = "$$" ] && return 0
        pid=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2>/dev/null) || return 0
        [ -n "$pid" ] || return 0
    done
    return 1
}

# Repeat a command until it prints nothing, for at most 5 s. Prints the last output.
await_none() {
    local found end=$((SECONDS + 5))
    while found=$("$@"); [ -n "$found" ] && [ $SECONDS -lt $end ]; do
        sleep 0.05
    done
    echo "$found"
}

# elastic_state OPTION... -- WORD...: run tests/run/elastic_state, with commits after every five steps
elastic_state() {
    local options=()
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    run timeout -k 5 60 "$hvdrun" --no-prefix "${options[@]}" "$HVD_BUILD/tests/run/elastic_state" 5 "${@:2}"
    echo "$output"
}

# Wait until the file has that many lines.
await_lines() {
    local end=$((SECONDS + 20))
    until [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; do
        [ $SECONDS -lt $end ] || { echo "no $2 lines in $1"; return 1; }
        sleep 0.02
    done
}

# child_named NAME PID: print the children of the process that have this name.
child_named() {
    local file
    grep -sl "^PPid:[[:space:]]$2\$" /proc/[0-9]*/status | while read -r file; do
        file=${file%/status}
        [ "$(cat "$file/comm")" != "$1" ] || echo "${file#/proc/}"
    done
}

# Print the word if it is not in the output yet; for await_none.
not_yet() {
    grep -q "$1" out || echo "$1"
}

# Run hvdrun with a time limit; standard output goes to the file out, standard error to err.
hvd() {
    status=0
    timeout -k 5 60 "$hvdrun" "$@" >out 2>err || status=$?
    cat out
    cat err >&2
}

need_mpi() {
    [ -x "$HVD_BUILD/tests/run/mpihello" ] || skip "configure found no Open MPI"
    # Open MPI leaks memory in modules that it has unloaded at the end, so that leaks.txt cannot name them
    export ASAN_OPTIONS=detect_leaks=0
}

last_line() {
    tail -n 1 err
}
