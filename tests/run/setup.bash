# setup.bash: every .bats file here begins with it. Programs are those of the build tree, and variables of launchers and
# of hvd that this shell has are removed from the environment.

for variable in $(compgen -e | grep -E '^(HVD|HOROVOD|PMIX|OMPI|PMI|SLURM|JSM)_'); do
    case $variable in
    HVD_BUILD | HVD_SOURCE | HVD_MODULE_PATH) ;;
    *) unset "$variable" ;;
    esac
done
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

# Without make check, in the build tree: bats tests/run/hvdinfo.bats
: "${HVD_BUILD:=$PWD}" "${HVD_SOURCE:=$PWD}" "${HVD_MODULE_PATH:=$PWD/pmix_shim/.libs:$PWD/core/.libs}"
export HVD_BUILD HVD_SOURCE HVD_MODULE_PATH
export LSAN_OPTIONS="suppressions=$HVD_SOURCE/tests/run/leaks.txt:print_suppressions=0" # in a build for ASan

# What a test takes may be so much longer, as for tests/bin/timeout.
# shellcheck disable=SC2034 # for the files that load this one
PATIENCE=${CK_TIMEOUT_MULTIPLIER:-1}

# has TEXT: the output of the last run contains TEXT; otherwise the test fails and prints the output.
# shellcheck disable=SC2154 # bats sets output
has() {
    [[ $output == *"$1"* ]] || {
        printf 'expected: %s\noutput:\n%s\n' "$1" "$output"
        return 1
    }
}

# need_hvdrun: skip the test where hvdrun is not built
need_hvdrun() {
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip 'hvdrun is not built: it needs PMIx'
}

# run_case N PROGRAM CASE [OPTION...]: run the case of tests/run/PROGRAM on N ranks and print what they write, in lines
# without prefix; status is hvdrun's
run_case() {
    local size=$1 program=$2 case=$3
    shift 3
    run timeout -k 5 "${case_seconds:-100}" "$HVD_BUILD/bin/hvdrun" --no-prefix -n "$size" "$@" "$HVD_BUILD/tests/run/$program" "$case"
    echo "$program $case on $size: $output"
}

# good_case N PROGRAM CASE [OPTION...]: the same, and hvdrun must exit with 0
good_case() {
    run_case "$@"
    [ "$status" -eq 0 ]
}

# end_started: end what a failed test has left running, by the process ids in $started
end_started() {
    local pid
    # shellcheck disable=SC2154 # the test sets it
    for pid in $started; do
        kill -KILL "$pid" 2>/dev/null || true
    done
}

# Print a TCP port of loopback that is free now, below the kernel's range for outgoing connections.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# await_ranks PID ...: wait until they have ended. Sets status to that of the last in the list that failed, and output to
# the contents of the test's .out files.
# shellcheck disable=SC2034 # for the test
await_ranks() {
    local pid
    status=0
    for pid in "$@"; do
        wait "$pid" || status=$?
    done
    output=$(cat "$BATS_TEST_TMPDIR"/*.out)
}
