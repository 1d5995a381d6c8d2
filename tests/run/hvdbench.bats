#!/usr/bin/env bats
# hvdbench as a user runs it: every case, with the smallest possible load. Times are not tested.

bats_require_minimum_version 1.5.0

setup() {
    load setup
    hvdrun=$HVD_BUILD/bin/hvdrun
    hvdbench=$HVD_BUILD/bin/hvdbench
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    export LSAN_OPTIONS="suppressions=$HVD_SOURCE/tests/run/leaks.txt:print_suppressions=0"
    mkdir "$TMPDIR"
    model=$BATS_TEST_TMPDIR/model
    printf '%s\n' 'conv.weight float32 64,3,7,7  # a comment' 'fc.weight float32 10,300' 'fc.bias float32 10' >"$model"
}

teardown() {
    [ -z "$(ls -A "$TMPDIR")" ] || { ls -lR "$TMPDIR"; return 1; }
}

# bench N ARGUMENT...: run hvdbench on N ranks; it must exit with 0
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

# alone ARGUMENT...: run hvdbench without a launcher
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

# spoiled TENSOR AFTER ARGUMENT...: run hvdbench on 3 ranks; the last one gets wrong sums of TENSOR after AFTER right ones
spoiled() {
    local tensor=$1 after=$2
    shift 2
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 3 env WRONG_TENSOR="$tensor" WRONG_AFTER="$after" \
        LD_PRELOAD="$HVD_BUILD/tests/run/.libs/wrong_sums.so" "$hvdbench" "$@"
    echo "$output"
}

# two COUNT COMMAND...: run the command by two-nodes; if that cannot run here, skip the test with its reason
two() {
    has_mpi || skip 'configure found no Open MPI'
    run timeout -k 5 100 "$HVD_SOURCE/tools/two-nodes" "$@"
    echo "$output"
    [ "$status" -ne 3 ] || skip "$output"
    return "$status"
}

# marked: processes that have this test's folder on their command line
marked() {
    grep -lsF -f <(echo "$BATS_TEST_TMPDIR") /proc/[0-9]*/cmdline || true
}

@test "allreduce: a table of hvd and what memory allows, on 1, 2 and 3 ranks" {
    for count in 1 2 3; do
        bench $count allreduce --model="$model" --rounds=2 --warmup=1 --no-mpi
        [[ ${lines[0]} == "allreduce $model: 3 tensors, 48.51 KiB, $count rank"*" on 1 node, 2 rounds" ]]
        for way in hvd hvd-alloc memcpy touch; do
            grep -qE "^  $way +[0-9.]+ [um]?s +[0-9.]+ [um]?s" <<<"$output"
        done
        [ "$(grep -c '^  exchange ' <<<"$output")" -eq $((count > 1)) ]
        has "MPI is left out: left out by --no-mpi"
        [ "$(grep -c mpi-one <<<"$output")" -eq 0 ]
    done
}

@test "allreduce: MPI in three ways, of which mpi-best is the fastest" {
    need_mpi
    bench 2 allreduce --model="$model" --rounds=3 --warmup=1 --json
    [ "$(objects case ranks nodes tensors bytes rounds)" = "allreduce 2 1 3 49672 3" ]
    positive hvd_us hvd_alloc_us mpi_one_us mpi_pieces_us mpi_each_us mpi_best_us memcpy_us touch_us p99_us \
        hvd_per_mpi_best hvd_per_memcpy hvd_alloc_per_mpi_best hvd_alloc_per_memcpy
    objects hvd_alloc_per_mpi_best hvd_alloc_us mpi_best_us |
        awk '{ off = $1 * $3 / $2 - 1; exit off * off > 1e-6 }'
    objects mpi_best_us mpi_one_us mpi_pieces_us mpi_each_us |
        awk '{ least = $2 < $3 ? $2 : $3; least = least < $4 ? least : $4; exit $1 != least }'
    [[ $(objects mpi) == "Open MPI v"* ]]
}

@test "allreduce: the models that everybody trains have their sizes" {
    bench 2 allreduce --model=resnet50 --rounds=1 --warmup=0 --no-mpi --json
    [ "$(objects model tensors bytes no_mpi)" = "resnet50 161 102228128 left out by --no-mpi" ]
}

@test "allreduce: types that MPI does not have are measured without it" {
    printf 'a bfloat16 1000\nb float16 7,3\nc int8 5\n' >"$model"
    bench 3 allreduce --model="$model" --rounds=1 --json
    [ "$(objects bytes mpi_one_us)" = "2047 -" ]
    if has_mpi; then
        [ "$(objects no_mpi)" = "MPI has no float16" ]
    fi
}

@test "ranks say how near their cores are, where they have several" {
    local line='^  a cache line goes from core [0-9]+ to core [0-9]+ and back in [0-9]+ ns$'
    bench 1 latency --repeats=1 --rounds=1 --no-mpi --json
    [ "$(objects line_ns)" = - ]
    [ "$(nproc)" -gt 1 ] || skip 'this machine has one core'
    for _ in 1 2 3 4 5; do # other load may keep the cores busy
        bench 2 latency --repeats=1 --rounds=1 --no-mpi --json
        [ "$(objects line_ns)" = - ] || break
    done
    positive line_ns
    for _ in 1 2 3 4 5; do
        bench 2 latency --repeats=1 --rounds=1 --no-mpi
        ! grep -qE "$line" <<<"$output" || break
    done
    grep -qE "$line" <<<"$output"
}

@test "small, latency" {
    bench 2 small --tensors=20 --bytes=64 --rounds=2 --warmup=0 --no-mpi --json
    [ "$(objects case tensors bytes)" = "small 20 1280" ]
    positive hvd_us hvd_alloc_us p99_us exchange_us memcpy_us touch_us
    bench 2 latency --repeats=5 --rounds=2 --no-mpi --json
    [ "$(objects case tensors bytes memcpy_us)" = "latency 1 4 -" ]
    positive hvd_us p99_us
    bench 2 latency --repeats=5 --rounds=2 --no-mpi
    has "latency 4 B: 1 tensor, 4 B, 2 ranks on 1 node"
}

@test "sweep: a row for each size, with bandwidths" {
    bench 2 sweep --from=4 --to=1M --factor=64 --rounds=2 --warmup=0 --no-mpi --json
    [ "$(objects case bytes | xargs)" = "sweep 4 sweep 256 sweep 16384 sweep 1048576" ]
    positive hvd_us p99_us algbw_gbs busbw_gbs
    # with two ranks each sends and receives as much as the tensor has
    objects algbw_gbs busbw_gbs | awk '$1 != $2 { exit 1 }'
    bench 2 sweep --to=64 --rounds=2 --warmup=0
    [ "$(grep -cE '^ +(4|16|64) B ' <<<"$output")" -eq 3 ]
}

@test "sweep, latency: --alloc measures memory of hvd_alloc in place of that of malloc" {
    bench 2 sweep --alloc --to=16 --rounds=2 --warmup=0 --no-mpi --json
    [ "$(objects bytes hvd_us | xargs)" = "4 - 16 -" ]
    positive hvd_alloc_us p99_us algbw_gbs busbw_gbs
    bench 2 sweep --alloc --to=16 --rounds=2 --warmup=0 --no-mpi
    [[ ${lines[0]} == "sweep: float32, sum, in place, in memory of hvd_alloc, 2 ranks on 1 node; "* ]]
    bench 2 latency --alloc --repeats=5 --rounds=2 --no-mpi
    grep -qE '^  hvd-alloc +[0-9.]+ [um]?s +[0-9.]+ [um]?s +hvd_allreduce, ' <<<"$output"
    [ "$(grep -c '^  hvd ' <<<"$output")" -eq 0 ]
}

@test "idle" {
    bench 2 idle --seconds=1 --json
    [ "$(objects case ranks seconds)" = "idle 2 1" ]
    objects cpu_us wakes | grep -qE '^[0-9.e+]+ [0-9]+$'
}

@test "trace: with and without a timeline, of which nothing is left" {
    bench 2 trace --model="$model" --rounds=2 --steps=2 --json
    [ "$(objects case tensors steps | xargs)" = "trace 3 2 trace 1000 2" ]
    positive off_us on_us on_per_off timeline_bytes
    bench 2 trace --model="$model" --rounds=1 --steps=1
    [ "$(grep -c '^  with a timeline ' <<<"$output")" -eq 2 ]
}

@test "launch: until all ranks are initialised" {
    need_hvdrun
    alone launch --ranks=3 --rounds=1 --warmup=0 --no-mpi --json
    [ "$status" -eq 0 ]
    [ "$(objects case ranks mpi_us)" = "launch 3 -" ]
    positive hvd_us hvdrun_exit_us p99_us
}

@test "launch: beside mpirun, where there is one that works" {
    need_mpi
    export ASAN_OPTIONS=detect_leaks=0 # Open MPI leaks
    need_hvdrun
    alone launch --rounds=1 --warmup=0 --json
    [ "$status" -eq 0 ]
    positive hvd_us
    if command -v mpirun >/dev/null && [ "$(objects no_mpi)" = - ]; then
        positive mpi_us mpirun_exit_us
    fi
    # without an mpirun a line says so, and the rest is measured; libtool's wrapper cannot run with this PATH
    mkdir "$BATS_TEST_TMPDIR/bin"
    ln -s "$(type -P true)" "$BATS_TEST_TMPDIR/bin/true"
    LD_LIBRARY_PATH=$HVD_BUILD/core/.libs run env PATH="$BATS_TEST_TMPDIR/bin" \
        "$HVD_BUILD/bin/.libs/hvdbench" launch --rounds=1 --warmup=0
    echo "$output"
    [ "$status" -eq 0 ]
    has "MPI is left out: mpirun was not found in PATH"
}

@test "launch refuses to be a rank itself" {
    need_hvdrun
    run timeout -k 5 60 "$hvdrun" --no-prefix "$hvdbench" launch
    [ "$status" -eq 1 ]
    has "hvdbench launch starts ranks itself, but is one (PMIX_RANK is set)"
}

@test "what measures in one process refuses to be several" {
    need_hvdrun
    for case in negotiate kernels; do
        run timeout -k 5 60 "$hvdrun" -n 2 --no-prefix "$hvdbench" $case
        [ "$status" -eq 1 ]
        has "hvdbench $case measures in one process, but hvdrun started 2 of them, which slow each other down; start one"
    done
}

# Messages and bytes of 64, 1024 and 16384 ranks are counted; nothing is timed.
@test "negotiate: what ranks say and hear does not grow with their number" {
    local ranks first=
    for ranks in 64 1024 16384; do
        alone negotiate --ranks=$ranks --tensors=5 --rounds=2 --json
        [ "$status" -eq 0 ]
        [ "$(objects case ranks node_ranks tensors rounds)" = "negotiate $ranks 8 5 2" ]
        positive first_messages first_rank_us first_root_us root_bytes rank_us root_us one_bytes
        # a rank receives one message from each child and one from its parent, and sends as many
        objects messages received sent one_messages first_messages radix |
            awk '{ for (i = 1; i < NF; i++) if ($i > $NF + 1) { print "more than the radix and one: " $0; exit 1 } }'
        # a message passes up the tree and down again, without another exchange
        objects depth steps one_steps first_steps | awk '{ for (i = 2; i <= NF; i++) if ($i != 2 * $1) exit 1 }'
        first=${first:-$(objects first_root_bytes)}
        [ "$(objects first_root_bytes)" = "$first" ]
        echo "$ranks $(objects depth state_bytes)" >>"$BATS_TEST_TMPDIR/found"
    done
    # a level of the tree for every factor of eight in the number of nodes
    [ "$(cut -d' ' -f1,2 "$BATS_TEST_TMPDIR/found" | xargs)" = "64 2 1024 4 16384 5" ]
    awk 'NR == 1 { least = $3 } $3 > least * 1.1 { print "a rank of " $1 " keeps " $3; exit 1 }' "$BATS_TEST_TMPDIR/found"
    # a sanitizer's malloc does not count its memory
    ldd "$HVD_BUILD/bin/.libs/hvdbench" | grep -q 'lib[at]san' || positive state_bytes
}

@test "negotiate: a table of any ranks on any nodes" {
    alone negotiate --ranks=7 --node-ranks=3 --tensors=1 --rounds=1
    [ "$status" -eq 0 ]
    has "negotiate: 7 simulated ranks, 3 a node; 1 tensor, 1 round"
    has "the tree's radix is 4, its depth 2; each rank keeps "
    [[ "${lines[3]}" =~ ^\ *first\ round\ +4\ +4\ +4\  ]]
    # a node with more than 32 ranks has sub-leaders
    alone negotiate --ranks=100 --node-ranks=100 --tensors=1 --rounds=1 --json
    [ "$(objects radix depth received sent steps)" = "32 2 33 33 4" ]
}

@test "kernels: every type, on every target that the processor has" {
    alone kernels --bytes=1024 --rounds=2 --json
    [ "$status" -eq 0 ]
    positive gbs memcpy_gbs
    targets=$(objects target | sort -u | wc -l)
    [ "$(objects target | tail -n 1)" = plain ]
    [ "$(objects type | sort -u | wc -l)" -eq 13 ]
    [ "$(objects type op | grep -c '^float32 sum$')" -eq "$targets" ]
    alone kernels --bytes=4 --rounds=1
    [ "$status" -eq 0 ]
    has "kernels: vectors of 4 B, 1 round; 10^9 bytes a second"
    [ "$(grep -cE '^  float16 +(widen|narrow)  ' <<<"$output")" -eq 2 ]
}

@test "pack: on a double of a GPU it is right, and has no figures" {
    double=$HVD_BUILD/tests/double/cuda/.libs
    [ -e "$double/libcuda.so.1" ] || skip 'hvd was configured without CUDA, or the double is not built'
    local -x HVD_DOUBLE_REPORT=$BATS_TEST_TMPDIR/report
    LD_LIBRARY_PATH=$double alone pack --gpu --model="$model" --rounds=2
    [ "$status" -eq 0 ]
    has "pack: $model, 3 tensors, 48.51 KiB, on double of GPU 0, 2 rounds; 10^9 bytes a second read and written"
    has "  right in all ways; no figures, because this is no GPU"
    LD_LIBRARY_PATH=$double alone pack --gpu --model="$model" --rounds=1 --json
    [ "$(objects case way gbs)" = "$(printf 'pack %s -\n' copy pack unpack 'pack to bfloat16, scaled' 'unpack from bfloat16, scaled')" ]
    HVD_DOUBLE_CUDA_FAIL=cuMemAlloc:2:2 LD_LIBRARY_PATH=$double alone pack --gpu --model="$model"
    [ "$status" -eq 1 ]
    has "hvdbench: no memory for the buffer: CUDA: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
    HVD_DOUBLE_CUDA_FAIL=work:5:719 LD_LIBRARY_PATH=$double alone pack --gpu --model="$model"
    [ "$status" -eq 1 ]
    [[ $output == *"CUDA_ERROR_LAUNCH_FAILED"* ]]
    [ ! -e "$HVD_DOUBLE_REPORT" ] || { cat "$HVD_DOUBLE_REPORT"; return 1; }
}

@test "pack: says what it needs" {
    alone pack
    [ "$status" -eq 1 ]
    [[ $output == "hvdbench: pack measures GPUs: give --gpu"* || $output == "hvdbench: hvd was built without CUDA"* ]]
}

@test "overhead: on the doubles of a GPU and of NCCL it is right, and has no figures" {
    local double=$HVD_BUILD/tests/double/cuda/.libs
    local -x HVD_NCCL_LIBRARY=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2
    [ -e "$HVD_NCCL_LIBRARY" ] || skip 'hvd was configured without NCCL, or its double is not built'
    LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH bench 2 overhead --gpu --tensors=3 --bytes=1004 --rounds=2 --warmup=1
    [[ $output == *"overhead: 3 tensors, 2.94 KiB, 2 ranks on 1 node, on double of GPU 0, NCCL 2"*", 2 rounds"* ]]
    has "  right; no figures, because this is no GPU"
    LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH bench 1 overhead --gpu --tensors=1 --bytes=100000 --rounds=1 --json
    [ "$(objects case ranks tensors bytes launch_us)" = "overhead 1 1 100000 -" ] # the doubles have no complaint either
    HVD_DOUBLE_NCCL_FAIL=ncclAllReduce:3 LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH alone overhead --gpu
    [ "$status" -eq 1 ]
    has "NCCL: unhandled cuda error"
}

@test "overhead: says what it needs" {
    alone overhead
    [ "$status" -eq 1 ]
    [[ $output == "hvdbench: overhead measures GPUs: give --gpu"* || $output == "hvdbench: "*"built without "* ]]
    [[ $output != *"give --gpu"* ]] || {
        alone overhead --gpu --tensors=65
        [ "$status" -eq 1 ]
        has "65 tensors of 1048576 bytes are more than one batch, which has at most --hvd-fusion=64M"
    }
}

@test "without its module MPI is left out, and that is said" {
    HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs bench 2 small --tensors=2 --bytes=4 --rounds=1
    has "MPI is left out: bench_mpi.so is not in "
    alone small --tensors=2 --bytes=4 --rounds=1
    [ "$status" -eq 0 ]
    has "MPI is left out: MPI needs PMIx"
}

@test "a wrong sum is not timed, in any case: one rank says whose it was, and all end" {
    need_hvdrun
    ldd "$HVD_BUILD/bin/.libs/hvdbench" | grep -q libasan && skip 'nothing is preloaded before ASan'
    local -A tensor=([allreduce]=fc.bias [small]=tensor.7 [latency]=tensor.0 [sweep]=tensor.0 [trace]=conv.weight)
    local -A options=([allreduce]="--no-mpi --model=$model" [small]="--no-mpi --tensors=20" [latency]=--no-mpi
        [sweep]="--no-mpi --to=4" [trace]="--model=$model --steps=1")
    # the first reduction is wrong, and then the second, when names are cached; those with a timeline are third and fourth
    for case in "${!tensor[@]}"; do
        for after in 0 1; do
            # shellcheck disable=SC2086 # options are words
            spoiled "${tensor[$case]}" $after $case ${options[$case]} --rounds=1 --json
            [ "$status" -eq 1 ]
            [ "$(grep -c "hvdbench: hvd_allreduce gave rank 2 a wrong sum: element 0 of ${tensor[$case]} is not what 3 ranks put in" <<<"$output")" -eq 1 ]
            [ "$(grep -c '^{' <<<"$output")" -eq 0 ]
        done
    done
    # the same with sums that are wrong in memory of hvd_alloc only
    for after in 0 1; do
        WRONG_GIVEN=yes spoiled tensor.0 $after latency --alloc --no-mpi --rounds=1
        [ "$status" -eq 1 ]
        has "hvd_allreduce gave rank 2 a wrong sum: element 0 of tensor.0 is not what 3 ranks put in"
        WRONG_GIVEN=yes spoiled fc.bias $after allreduce --no-mpi --model="$model" --rounds=1
        [ "$status" -eq 1 ]
        has "hvd_allreduce gave rank 2 a wrong sum: element 0 of fc.bias is not what 3 ranks put in"
    done
    # if no tensor has that name, no sum is wrong and the same command exits with 0
    spoiled nosuch 0 latency --rounds=1 --no-mpi
    [ "$status" -eq 0 ]
}

@test "two-nodes: ranks of one job on nodes with networks of their own, for hvd and MPI" {
    # shellcheck disable=SC2016 # expanded there
    two 2 sh -c 'echo $(hostname) $(ip -4 -o addr show dev eth0 | grep -oE "10[.0-9]+/24") $TMPDIR'
    [ "$(sort <<<"$output" | uniq -c | xargs)" = "2 a 10.78.0.1/24 /dev/shm 2 b 10.78.0.2/24 /dev/shm" ]
    # as above
    two 2 env ASAN_OPTIONS=detect_leaks=0 HVD_BACKENDS=tcp "$hvdbench" allreduce --model="$model" --rounds=1 --json
    [ "$(objects case ranks nodes)" = "allreduce 4 2" ]
    positive hvd_us hvd_alloc_us mpi_best_us
    run timeout -k 5 100 "$HVD_SOURCE/tools/two-nodes" 1 false
    [ "$status" -eq 1 ]
    run "$HVD_SOURCE/tools/two-nodes" 0 true
    [ "$status" -eq 3 ]
    [ "$output" = "two-nodes: 0: expected the ranks of each node, 1 or more" ]
}

@test "two-nodes: nothing of it is left when it is killed" {
    two 1 true
    local signal count
    for signal in TERM HUP KILL; do
        mkfifo "$BATS_TEST_TMPDIR/up"
        # shellcheck disable=SC2016 # expanded there
        env --default-signal=TERM,HUP "$HVD_SOURCE/tools/two-nodes" 1 sh -c 'echo up >"$1"; sleep 1000; :' sh "$BATS_TEST_TMPDIR/up" 3>&- &
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
    alone bars --only=latency,idle --runs=1 --json
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
    local bin=$BATS_TEST_TMPDIR/bin program
    mkdir "$bin"
    for program in readlink id; do
        ln -s "$(type -P $program)" "$bin/$program"
    done
    LD_LIBRARY_PATH=$HVD_BUILD/core/.libs run env PATH="$bin" "$HVD_BUILD/bin/.libs/hvdbench" bars --only=nodes-tcp --runs=2
    echo "$output"
    grep -q 'cannot be run' <<<"$output" && skip "$output"
    [ "$status" -eq 1 ]
    grep -qE '^  time / best MPI  +-  +- +1.000 x +-  not run$' <<<"$output"
    has "two-nodes exited with status 3: two-nodes: it needs "
    has "hvdbench: 0 of 1 bars are met; not run: nodes-tcp"
    # if the job itself fails, the bar is missed, and does not count as not run
    LD_LIBRARY_PATH=$HVD_BUILD/core/.libs run env HVD_BACKENDS=nosuch "$HVD_BUILD/bin/.libs/hvdbench" bars --only=latency --runs=2
    echo "$output"
    [ "$status" -eq 1 ]
    has "hvdbench: 0 of 1 bars are met; missed: latency"
    [ "$(grep -c nosuch <<<"$output")" -eq 1 ]
}

@test "bars: models are judged in memory of hvd_alloc, and that of malloc is shown beside it" {
    need_hvdrun
    need_mpi
    ASAN_OPTIONS=detect_leaks=0 alone bars --only=crowded --runs=1 --json # Open MPI leaks
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
    HVD_BACKENDS=nosuch alone bars --only=crowded --runs=1
    [ "$status" -eq 1 ]
    grep -qE '^  time / best MPI, hvd_alloc memory +- +0.700 x +-  no$' <<<"$output"
    grep -qE '^  time / best MPI, malloc memory +- +- +-  -$' <<<"$output"
    has "hvdbench: 0 of 1 bars are met; missed: crowded"
}

@test "bars are listed as hvdbench(1) and BENCHMARKS.md have them" {
    alone bars --list
    [ "$status" -eq 0 ]
    # shellcheck disable=SC2016 # a row of backquotes
    diff <(cat <<<"$output") <(sed -n '/^    \$ hvdbench bars --list/,/^$/{/^    \$/d;/^$/d;s/^    //;p}' "$HVD_SOURCE/BENCHMARKS.md")
    diff <(sed -n 's/^\([a-z0-9-]*\): .*/\1/p' <<<"$output" | sort) <(sed -n 's/^\.It Sy \([a-z0-9-]*\)$/\1/p' "$HVD_SOURCE/man/hvdbench.1" | sort)
}

@test "what all ranks refuse is said once" {
    need_hvdrun
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 3 "$hvdbench" allreduce --model=nosuch --no-mpi
    [ "$status" -eq 1 ]
    [ "$(grep -c 'hvdbench: model nosuch: there is no model and no file of that name; expected resnet50' <<<"$output")" -eq 1 ]
    echo 'huge float32 100000,100000,20' >"$model"
    run timeout -k 5 60 "$hvdrun" --no-prefix -n 3 "$hvdbench" allreduce --model="$model" --no-mpi
    [ "$status" -eq 1 ]
    [ "$(grep -c 'hvdbench: each of 3 ranks on this node needs ' <<<"$output")" -eq 1 ]
}

@test "wrong options are refused before a job is joined" {
    alone
    [ "$status" -eq 2 ]
    [ "$output" = "hvdbench: no case was given; expected allreduce, small, latency, sweep, idle, trace, launch, negotiate, kernels, pack, overhead or bars" ]
    alone allreduce --tensors=3
    [ "$status" -eq 2 ]
    has "hvdbench allreduce has no option --tensors=3; expected --model, "
    alone latency --bytes=3
    [ "$status" -eq 2 ]
    has "--bytes=3: the size is too small; expected 4 to 16G"
    alone --help
    [ "$status" -eq 0 ]
    has "Usage: hvdrun -n N --no-prefix hvdbench CASE"
    alone --version
    [[ $output == "hvdbench "[0-9]* ]]
}

@test "hvdbench(1) describes every case and option, and no other" {
    alone --help
    sed -n 's/^  \([a-z]*\): .*/\1/p' <<<"$output" | sort >"$BATS_TEST_TMPDIR/cases"
    sed -n 's/^\.It Cm \([a-z]*\)$/\1/p' "$HVD_SOURCE/man/hvdbench.1" | sort | diff "$BATS_TEST_TMPDIR/cases" -
    sed -n 's/^    --\([a-z-]*\).*/\1/p' <<<"$output" | sort -u >"$BATS_TEST_TMPDIR/options"
    grep '^\.It Fl' "$HVD_SOURCE/man/hvdbench.1" | grep -oE 'Fl -[a-z-]+' | cut -c5- | sort -u | diff "$BATS_TEST_TMPDIR/options" -
}
