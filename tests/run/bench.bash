# bench.bash: what the tests of hvdbench and of tests/bench have in common; each begins with it.
# shellcheck disable=SC2154 # setup sets hvdbench, hvdrun and model, and bats status and output

# setup_bench: what setup does, after it has set hvdrun; hvdbench, the program that bench and alone run; and model, a file
setup_bench() {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    printf '%s\n' 'conv.weight float32 64,3,7,7  # a comment' 'fc.weight float32 10,300' 'fc.bias float32 10' >"$model"
}

teardown() {
    [ -z "$(ls -A "$TMPDIR")" ] || { ls -lR "$TMPDIR"; return 1; }
}

# bench N ARGUMENT...: run the program on N ranks; it must exit with 0
bench() {
    local count=$1
    shift
    # Open MPI leaks memory in modules that it has unloaded at the end, so that leaks.txt cannot name them
    [[ " idle trace " == *" $1 "* || " $* " == *" --no-mpi "* ]] || local -x ASAN_OPTIONS=detect_leaks=0
    need_hvdrun
    run timeout -k 5 100 "$hvdrun" --no-prefix -n "$count" "$hvdbench" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# alone ARGUMENT...: run the program without a launcher
alone() {
    run timeout -k 5 300 "$hvdbench" "$@"
    echo "$output"
}

# objects FIELD...: print these fields of each line of the output, a JSON object; "-" for a field that is absent
objects() {
    perl -MJSON::PP -e '
        my @fields = @ARGV;
        while (my $line = <STDIN>) {
            my $object = decode_json($line);
            print join(" ", map { defined $object->{$_} ? $object->{$_} : "-" } @fields), "\n";
        }' "$@" <<<"$output"
}

# positive FIELD...: in each object these fields are numbers above 0
positive() {
    objects "$@" >"$BATS_TEST_TMPDIR/numbers"
    [ -s "$BATS_TEST_TMPDIR/numbers" ]
    awk '{ for (i = 1; i <= NF; i++) if (!($i + 0 > 0)) { print "not positive: " $0; exit 1 } }' "$BATS_TEST_TMPDIR/numbers"
}

has_mpi() {
    [ -e "$HVD_BUILD/core/.libs/bench_mpi.so" ]
}

need_mpi() {
    has_mpi || skip 'configure found no Open MPI'
}

# spoiled TENSOR AFTER ARGUMENT...: run the program on 3 ranks; the last one gets wrong sums of TENSOR after AFTER right ones
spoiled() {
    local tensor=$1 after=$2
    shift 2
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 3 env WRONG_TENSOR="$tensor" WRONG_AFTER="$after" \
        LD_PRELOAD="$HVD_BUILD/tests/run/.libs/wrong_sums.so" "$hvdbench" "$@"
    echo "$output"
}
