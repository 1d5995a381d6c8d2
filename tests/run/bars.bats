#!/usr/bin/env bats
# bars.bats: make bars and what it needs: the verdicts, and two nodes on one machine. Whether bars are met is not tested.

bats_require_minimum_version 1.5.0

load bench

setup() {
    load setup
    hvdbench=$HVD_BUILD/bin/hvdbench model=$BATS_TEST_TMPDIR/model
    setup_bench
}

# bars ARGUMENT...: run tests/bench/bars.py
bars() {
    command -v python3 >/dev/null || skip 'it needs python3'
    run timeout -k 5 300 python3 "$HVD_SOURCE/tests/bench/bars.py" "$@"
    echo "$output"
}

# two COUNT COMMAND...: run the command by two-nodes; if that cannot run here, skip the test with its reason
two() {
    has_mpi || skip 'configure found no Open MPI'
    run timeout -k 5 100 "$HVD_SOURCE/tests/bench/two-nodes" "$@"
    echo "$output"
    [ "$status" -ne 3 ] || skip "$output"
    return "$status"
}

# marked: processes that have this test's folder on their command line
marked() {
    grep -lsF -f <(echo "$BATS_TEST_TMPDIR") /proc/[0-9]*/cmdline || true
}

@test "two-nodes: ranks of one job on nodes with networks of their own, for hvd and MPI" {
    # shellcheck disable=SC2016 # expanded there
    two 2 sh -c 'echo $(hostname) $(ip -4 -o addr show dev eth0 | grep -oE "10[.0-9]+/24") $TMPDIR'
    [ "$(sort <<<"$output" | uniq -c | xargs)" = "2 a 10.78.0.1/24 /dev/shm 2 b 10.78.0.2/24 /dev/shm" ]
    # as above
    two 2 env ASAN_OPTIONS=detect_leaks=0 HVD_BACKENDS=tcp "$hvdbench" allreduce --model="$model" --rounds=1 --json
    output=$(grep '^{' <<<"$output") # on a busy machine Open MPI warns of its setpgid
    [ "$(objects case ranks nodes)" = "allreduce 4 2" ]
    positive hvd_us hvd_alloc_us mpi_best_us
    run timeout -k 5 100 "$HVD_SOURCE/tests/bench/two-nodes" 1 false
    [ "$status" -eq 1 ]
    run "$HVD_SOURCE/tests/bench/two-nodes" 0 true
    [ "$status" -eq 3 ]
    [ "$output" = "two-nodes: 0: expected the ranks of each node, 1 or more" ]
}

@test "two-nodes: nothing of it is left when it is killed" {
    two 1 true
    local signal count
    for signal in TERM HUP KILL; do
        mkfifo "$BATS_TEST_TMPDIR/up"
        # shellcheck disable=SC2016 # expanded there
        env --default-signal=TERM,HUP "$HVD_SOURCE/tests/bench/two-nodes" 1 sh -c 'echo up >"$1"; sleep 1000; :' sh "$BATS_TEST_TMPDIR/up" 3>&- &
        # both ranks
        timeout 30 head -n 2 <>"$BATS_TEST_TMPDIR/up"
        [ -n "$(marked)" ]
        kill -$signal $!
        wait $! || true
        for ((count = 0; count < 200; count++)); do
            [ -n "$(marked)" ] || break
            sleep 0.05
        done
        [ -z "$(marked)" ]
        rm "$BATS_TEST_TMPDIR/up"
    done
}

@test "bars: what was seen, the verdict, and an exit status that is 0 only where all are met" {
    need_hvdrun
    bars --only=latency,idle --runs=1 --json
    grep -q 'cannot be run' <<<"$output" && skip "$output"
    local met ended=$status
    run grep '^{' <<<"$output"
    [ "$(objects case bar limit | sort)" = "$(printf '%s\n' 'bars idle CPU time per rank' 'bars idle wake-ups per rank' 'bars latency time')" ]
    # the verdict must follow from the numbers, which depend on the machine
    perl -MJSON::PP -e '
        while (my $line = <STDIN>) {
            my $object = decode_json($line);
            my ($seen, $stretch) = ($object->{seen}[0], $object->{stretch} // -1);
            my $met = $seen <= $stretch ? "stretch" : $seen <= $object->{most} ? "yes" : "no";
            $met eq $object->{met} or die "$line: expected $met";
            @{$object->{line_ns}} == 1 or die "$line: expected line_ns of one run";
            $missed++ if $met eq "no";
        }
        exit($missed ? 1 : 0)' <<<"$output" && met=0 || met=$?
    [ "$ended" -eq "$met" ]
}

@test "bars: what cannot be run says why, and is not met" {
    need_hvdrun
    # two-nodes finds nothing that it needs; libtool's wrappers cannot run with this PATH
    local bin=$BATS_TEST_TMPDIR/bin program
    mkdir "$bin"
    for program in readlink id timeout; do
        ln -s "$(type -P $program)" "$bin/$program"
    done
    ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$bin/python3"
    mkdir -p "$BATS_TEST_TMPDIR/build/bin"
    ln -s "$HVD_BUILD/bin/.libs/hvdbench" "$BATS_TEST_TMPDIR/build/bin/hvdbench"
    local -x LD_LIBRARY_PATH=$HVD_BUILD/core/.libs
    HVD_BUILD=$BATS_TEST_TMPDIR/build PATH=$bin bars --only=nodes-tcp --runs=2
    grep -q 'cannot be run' <<<"$output" && skip "$output"
    [ "$status" -eq 1 ]
    grep -qE '^  time / best MPI  +-  +- +1.000 x +-  not run$' <<<"$output"
    has "two-nodes exited with status 3: two-nodes: it needs "
    has "bars: 0 of 1 bars are met; not run: nodes-tcp"
    unset LD_LIBRARY_PATH
    # if the job itself fails, the bar is missed, and does not count as not run
    HVD_BACKENDS=nosuch bars --only=latency --runs=2
    [ "$status" -eq 1 ]
    has "bars: 0 of 1 bars are met; missed: latency"
    [ "$(grep -c nosuch <<<"$output")" -eq 1 ]
}

@test "bars: models are judged in memory of hvd_alloc, and that of malloc is shown beside it" {
    need_hvdrun
    need_mpi
    ASAN_OPTIONS=detect_leaks=0 bars --only=crowded --runs=1 --json # Open MPI leaks
    grep -q 'cannot be run' <<<"$output" && skip "$output"
    local ended=$status
    run grep '^{' <<<"$output"
    [ "$(objects limit most | sort)" = "$(printf '%s\n' 'time / best MPI, hvd_alloc memory 0.7' 'time / best MPI, malloc memory -')" ]
    perl -MJSON::PP -e '
        my %met;
        while (my $line = <STDIN>) {
            my $object = decode_json($line);
            $object->{seen}[0] > 0 or die "$line: expected a number that was seen";
            $met{$object->{limit}} = $object->{met};
        }
        $met{"time / best MPI, malloc memory"} eq "-" or die "what has no bar is judged";
        exit($met{"time / best MPI, hvd_alloc memory"} eq "yes" ? 0 : 1)' <<<"$output" && met=0 || met=$?
    [ "$ended" -eq "$met" ]
    # if the job fails, limits that have a bar are missed, and the others are not judged
    HVD_BACKENDS=nosuch bars --only=crowded --runs=1
    [ "$status" -eq 1 ]
    grep -qE '^  time / best MPI, hvd_alloc memory +- +0.700 x +-  no$' <<<"$output"
    grep -qE '^  time / best MPI, malloc memory +- +- +-  -$' <<<"$output"
    has "bars: 0 of 1 bars are met; missed: crowded"
}

@test "bars are listed as BENCHMARKS.md has them" {
    bars --list
    [ "$status" -eq 0 ]
    diff <(cat <<<"$output") <(sed -n '/^    \$ make bars BARS=--list/,/^$/{/^    \$/d;/^$/d;s/^    //;p}' "$HVD_SOURCE/BENCHMARKS.md")
}

@test "bars: a wrong command line is refused" {
    bars --only=small,nosuch
    [ "$status" -eq 2 ]
    has '--only: small,nosuch: there is no bar "nosuch"; expected some of resnet50, '
    bars --runs=10
    [ "$status" -eq 2 ]
    PMIX_RANK=0 bars --only=small
    [ "$status" -eq 1 ]
    [ "$output" = 'bars: it starts ranks itself, but is one (PMIX_RANK is set); run it without hvdrun, srun or mpirun' ]
}

@test "bars: numbers are taken from records, and judged" {
    PYTHONDONTWRITEBYTECODE=1 python3 "$HVD_SOURCE/tests/bench/test_bars.py"
}
