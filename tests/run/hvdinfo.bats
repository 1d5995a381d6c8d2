#!/usr/bin/env bats
# hvdinfo.bats: what hvdinfo prints about this installation and the options in force.

setup() {
    load setup
    hvdinfo=$HVD_BUILD/bin/hvdinfo
}

# line NAME: print the line of an option in hvdinfo's table
line() {
    printf '%s\n' "$output" | grep -E "^  $1 "
}

@test "hvdinfo says version, parts and options, all by default" {
    run "$hvdinfo"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "hvd "[0-9]* ]]
    for part in PMIx Slurm hwloc MPI CUDA NCCL; do
        [[ $(line $part) =~ [0-9]\.[0-9]|no:\  ]]
    done
    [[ $(line fusion) =~ 64M\ +default$ ]]
    [[ $(line config) =~ -\ +default$ ]]
    [[ $output != *cycle-time* ]]
}

@test "hvdinfo names who set each option" {
    printf 'lease: 7s\nlog: info\n' >"$BATS_TEST_TMPDIR/f"
    HVD_SITE="lease=6s;kill-wait=1h;config=$BATS_TEST_TMPDIR/f" HVD_LOG=debug HVD_CLI=fusion=1M run "$hvdinfo"
    [ "$status" -eq 0 ]
    [[ $(line fusion) =~ 1M\ +command\ line$ ]]
    [[ $(line log) =~ debug\ +environment\ \(HVD_LOG\)$ ]]
    [[ $(line lease) =~ 7s\ +file\ \(.*/f\)$ ]]
    [[ $(line kill-wait) =~ 1h\ +site\ \(HVD_SITE\)$ ]]
    [[ $(line config) =~ /f\ +site\ \(HVD_SITE\)$ ]]
}

@test "the columns of the options stand in line" {
    HVD_CONFIG=/dev/null HVD_CLI=backends=tcp,mpi run "$hvdinfo"
    [ "$status" -eq 1 ] # a device is not a file of options
    HVD_CLI=backends=tcp,mpi run "$hvdinfo"
    [ "$status" -eq 0 ]
    printf '%s\n' "$output" | sed -n '/^  option /,$p' | awk '
        NR == 1 { at = index($0, "set by"); next }
        substr($0, at, 7) !~ /^(default|command)/ { print "not in line: " $0; bad = 1 }
        END { exit bad }'
}

@test "a bad option is one sentence and exit status 1" {
    HVD_FUSION=64Q run "$hvdinfo"
    [ "$status" -eq 1 ]
    has "hvdinfo: HVD_FUSION=64Q: the value has an unknown unit; expected bytes"
    HVD_CLI=fusion=-1 run "$hvdinfo"
    [ "$status" -eq 1 ]
    has "hvdinfo: --hvd-fusion=-1: the value does not begin with a digit"
    HVD_CONFIG=/nowhere/f run "$hvdinfo"
    [ "$status" -eq 1 ]
    has "/nowhere/f cannot be opened"
}

@test "an unknown variable is a warning" {
    HVD_FUSON=64M run "$hvdinfo"
    [ "$status" -eq 0 ]
    has "hvdinfo: warning: HVD_FUSON: hvd has no such option"
}

@test "hvdinfo runs inside a step that it cannot join" {
    SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 HVD_CLI=fusion=1M run "$hvdinfo"
    [ "$status" -eq 0 ]
    has "command line"
}

@test "hvdinfo says whether the module of PMIx can be loaded" {
    "$hvdinfo" | grep -q '^  PMIx .*no: ' && skip "built without PMIx"
    run "$hvdinfo"
    has "wireup_pmix.so can be loaded"
    HVD_MODULE_PATH=/nowhere:/nowhere/else run "$hvdinfo"
    [ "$status" -eq 0 ]
    has "wireup_pmix.so is not in /nowhere:/nowhere/else"
    echo broken >"$BATS_TEST_TMPDIR/wireup_pmix.so"
    HVD_MODULE_PATH=/nowhere:$BATS_TEST_TMPDIR run "$hvdinfo"
    [ "$status" -eq 0 ]
    has "wireup_pmix.so cannot be loaded: "
}

@test "--options lists every option with its variables" {
    run "$hvdinfo" --options
    [ "$status" -eq 0 ]
    has "--hvd-fusion=SIZE"
    has "variable  HVD_FUSION"
    has "Horovod   HOROVOD_FUSION_THRESHOLD"
    has "default   64M"
    has "between 0 and 16G"
    has "HOROVOD_TIMELINE is not taken: Horovod's timeline is one file"
    has "of its value 0: hvd always has its cache"
    has "retired: hvd acts when something happens"
    has "--hvd-autotune[=HOW]"
    has "HOROVOD_STALL_CHECK_DISABLE=1 makes it 0"
    has "HOROVOD_HIERARCHICAL_ALLREDUCE"
}

@test "--man is clean mdoc" {
    command -v mandoc || skip "mandoc is not installed"
    {
        printf '.Dd November 21, 2025\n.Dt X 1\n.Os\n.Sh NAME\n.Nm x\n.Nd x\n.Sh OPTIONS\n'
        "$hvdinfo" --man
        "$hvdinfo" --man-horovod
        "$hvdinfo" --man-events
    } >"$BATS_TEST_TMPDIR/x.1"
    mandoc -Tlint -W warning "$BATS_TEST_TMPDIR/x.1"
    run mandoc -O width=400 "$BATS_TEST_TMPDIR/x.1"
    has "HOROVOD_START_TIMEOUT"
    has "HOROVOD_CACHE_CAPACITY=0: Hvd always has its cache"
    [[ $output != *HOROVOD_TIMELINE,* && $output != *"HOROVOD_TIMELINE "* ]]
}

@test "the manual page is clean mdoc" {
    command -v mandoc || skip "mandoc is not installed"
    mandoc -Tlint -W warning "$HVD_SOURCE/man/hvdinfo.1"
}

@test "--version and --help; other arguments are refused" {
    run "$hvdinfo" --version
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    run "$hvdinfo" --help
    [ "$status" -eq 0 ]
    has "usage: hvdinfo"
    run "$hvdinfo" --fusion
    [ "$status" -eq 1 ]
    has "hvdinfo: --fusion: no such option or subcommand; hvdinfo --help lists"
    run "$hvdinfo" doctr
    [ "$status" -eq 1 ]
    has "hvdinfo: doctr: no such option or subcommand; did you mean doctor?"
    run "$hvdinfo" --version --help
    [ "$status" -eq 1 ]
    has "hvdinfo: --version --help: --version goes alone"
}

@test "an output that cannot be written is an error" {
    [ -e /dev/full ] || skip "no /dev/full"
    run bash -c '"$1" >/dev/full' - "$hvdinfo"
    [ "$status" -eq 1 ]
    has "No space left"
}

@test "hvdinfo nics says of each interface why a job would use it or not" {
    run "$hvdinfo" nics
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "interfaces of $(hostname)" ]
    [[ ${lines[1]} =~ ^interface\ +RDMA\ +speed\ +use\ +address\ +why$ ]]
    grep -Eq '^lo +- +unknown +no +127.0.0.1/8 +loopback$' <<<"$output"
}

@test "hvdinfo nics --json is an array of objects" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    "$hvdinfo" nics --json >"$BATS_TEST_TMPDIR/json"
    run python3 - "$BATS_TEST_TMPDIR/json" <<'END'
import json, sys
nics = json.load(open(sys.argv[1]))
lo = [nic for nic in nics if nic["interface"] == "lo"][0]
assert set(lo) == {"interface", "rdma", "port", "mbps", "link", "addresses", "use", "why"}, lo
assert lo["use"] == "no" and lo["why"] == "loopback" and "127.0.0.1/8" in lo["addresses"], lo
END
    [ "$status" -eq 0 ]
}

@test "hvdinfo nics refuses what this node does not have, and shows what it has" {
    HVD_NICS=nothing9 run "$hvdinfo" nics
    [ "$status" -eq 1 ]
    has "hvdinfo nics: --hvd-nics=nothing9: no network device of this node has that name; there are "
    has "loopback"
    run "$hvdinfo" nics --xml
    [ "$status" -eq 1 ]
    has "hvdinfo nics: --xml: expected --json, or nothing"
}

@test "every subcommand has its help" {
    for command in doctor env nics trace map; do
        run "$hvdinfo" $command --help
        [ "$status" -eq 0 ]
        [[ ${lines[0]} == "usage: hvdinfo $command"* ]]
    done
}

@test "hvdinfo env tells a script its place, and leaves what is set" {
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip "built without PMIx"
    # shellcheck disable=SC2016 # the inner shell expands
    run "$HVD_BUILD/bin/hvdrun" -n 2 --no-prefix env -u RANK -u MASTER_ADDR -u MASTER_PORT WORLD_SIZE=7 sh -c \
        'eval "$("$1" env)" && echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT"' - "$hvdinfo"
    [ "$status" -eq 0 ]
    grep -Eq "^rank 0 of 7 at $(hostname):[1-9][0-9]*$" <<<"$output"
    [ "$(grep -o 'of 7 at .*' <<<"$output" | sort -u | wc -l)" -eq 1 ]
    run "$hvdinfo" env
    has "export WORLD_SIZE=1"
    run "$hvdinfo" env now
    [ "$status" -eq 1 ]
    has "hvdinfo env: now: expected nothing"
}

@test "a program after hvdinfo env starts, even if PMIx ends its fences too early" {
    [ -x "$HVD_BUILD/bin/hvdrun" ] || skip "built without PMIx"
    export PRELOAD=$HVD_BUILD/tests/run/.libs/no_finalize.so
    # rank 0 comes late, so that rank 1 is alone in its first fence
    # shellcheck disable=SC2016 # the inner shell expands
    run timeout -k 5 60 "$HVD_BUILD/bin/hvdrun" -n 2 --no-prefix --hvd-start-timeout=20s sh -c '
        [ "$RANK" = 0 ] && preload=$PRELOAD || preload=
        eval "$(LD_PRELOAD=$preload "$1" env)" && [ "$HVD_EPOCH" = 1 ] || exit 1
        [ "$RANK" = 1 ] || sleep 0.3
        exec "$2"' - "$hvdinfo" "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 2: the sum is 3' <<<"$output")" -eq 2 ]
    [[ $output != *warning* ]]
}
