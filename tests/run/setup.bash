# setup.bash: what every .bats file here begins with: programs of the build tree, and nothing in the environment
# that a launcher or a user of this shell has left there.

for variable in $(compgen -e | grep -E '^(HVD|HOROVOD|PMIX|OMPI|PMI|SLURM|JSM)_'); do
    case $variable in
    HVD_BUILD | HVD_SOURCE | HVD_MODULE_PATH) ;;
    *) unset "$variable" ;;
    esac
done
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

# By hand, outside make check: bats tests/run/hvdinfo.bats in the build tree
: "${HVD_BUILD:=$PWD}" "${HVD_SOURCE:=$PWD}" "${HVD_MODULE_PATH:=$PWD/pmix_shim/.libs:$PWD/core/.libs}"
export HVD_BUILD HVD_SOURCE HVD_MODULE_PATH

# has TEXT: the output of the last run holds it, or the test fails and shows the output.
# shellcheck disable=SC2154 # bats sets output
has() {
    [[ $output == *"$1"* ]] || {
        printf 'expected: %s\noutput:\n%s\n' "$1" "$output"
        return 1
    }
}

# A TCP port of loopback that nobody uses now, below those that the kernel gives to connections.
free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# await_ranks PID ...: once they have ended; status is that of the last in the list that failed, output is what they
# wrote into the .out files of the test.
# shellcheck disable=SC2034 # for the test
await_ranks() {
    local pid
    status=0
    for pid in "$@"; do
        wait "$pid" || status=$?
    done
    output=$(cat "$BATS_TEST_TMPDIR"/*.out)
}
