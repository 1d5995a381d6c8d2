#!/usr/bin/env bats
# hvdbench as a user runs it: every case, with the smallest possible load. Times are not tested.
# shellcheck disable=SC2030,SC2031 # each test has variables of its own

bats_require_minimum_version 1.5.0

load bench

setup() {
    load setup
    hvdrun=$HVD_BUILD/bin/hvdrun hvdbench=$HVD_BUILD/bin/hvdbench model=$BATS_TEST_TMPDIR/model
    setup_bench
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
        hvd_cpu_us hvd_alloc_cpu_us mpi_one_cpu_us mpi_pieces_cpu_us mpi_each_cpu_us memcpy_cpu_us touch_cpu_us \
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
    grep -qE '^  hvd-alloc +[0-9.]+ [um]?s +[0-9.]+ [um]?s +[0-9.]+ [um]?s +hvd_allreduce, ' <<<"$output"
    [ "$(grep -c '^  hvd ' <<<"$output")" -eq 0 ]
}

@test "p2p: a row for each size, with bandwidths, beside MPI" {
    bench 3 p2p --from=4 --to=1M --factor=64 --rounds=2 --warmup=0 --no-mpi --json
    [ "$(objects case ranks bytes | xargs)" = "p2p 3 4 p2p 3 256 p2p 3 16384 p2p 3 1048576" ]
    positive hvd_us hvd_gbs
    bench 2 p2p --to=64 --rounds=2 --warmup=0
    has "p2p: messages from rank 0 to rank 1 and back, 2 ranks on 1 node"
    [ "$(grep -cE '^ +(4|16|64) B ' <<<"$output")" -eq 3 ]
    if has_mpi; then
        bench 2 p2p --to=64 --rounds=2 --warmup=0 --json
        positive hvd_us mpi_us mpi_gbs hvd_by_mpi
    fi
    alone p2p --no-mpi
    [ "$status" -eq 1 ]
    has "a message needs two ranks; start more"
}

@test "idle" {
    bench 2 idle --seconds=1 --json
    [ "$(objects case ranks seconds)" = "idle 2 1" ]
    objects cpu_us wakes | grep -qE '^[0-9.e+]+ [0-9]+$'
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

@test "overhead: on the doubles of a GPU and of NCCL it is right, and has no figures" {
    local double=$HVD_BUILD/tests/double/cuda/.libs
    local -x HVD_NCCL_LIBRARY=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2
    [ -e "$HVD_NCCL_LIBRARY" ] || skip 'hvd was configured --with-nccl=no'
    LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH bench 2 overhead --gpu --tensors=3 --bytes=1004 --rounds=2 --warmup=1
    [[ $output == *"overhead: 3 tensors, 2.94 KiB, 2 ranks on 1 node, on double of GPU 0, NCCL 2"*", 2 rounds"* ]]
    has "  right; no figures, because this is no GPU"
    LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH bench 1 overhead --gpu --tensors=1 --bytes=100000 --rounds=1 --json
    [ "$(objects case ranks tensors bytes launch_us)" = "overhead 1 1 100000 -" ] # the doubles have no complaint either
    LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH bench 2 overhead --gpu --tensors=4 --bytes=2048 --rounds=1 --alloc --types=2 --json
    [ "$(objects case types op memory)" = "overhead 2 sum hvd_alloc_on" ]
    LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH bench 2 overhead --gpu --tensors=4 --bytes=2048 --rounds=1 --average --json
    [ "$(objects case types op memory)" = "overhead 1 average cuMemAlloc" ]
    HVD_DOUBLE_NCCL_FAIL=ncclAllReduce:3 LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH alone overhead --gpu
    [ "$status" -eq 1 ]
    has "NCCL: unhandled cuda error"
}

@test "overhead: says what it needs" {
    alone overhead
    [ "$status" -eq 1 ]
    [[ $output == "hvdbench: overhead measures GPUs: give --gpu"* ]]
    [[ $output != *"give --gpu"* ]] || {
        alone overhead --gpu --tensors=65
        [ "$status" -eq 1 ]
        has "65 tensors of 1048576 bytes are more than one batch, which has at most --hvd-fusion=64M"
    }
}

@test "staging: on the double of a GPU it is right, and has no figures" {
    local double=$HVD_BUILD/tests/double/cuda/.libs
    local -x HVD_LOG=error HVD_NCCL_LIBRARY=/none LD_LIBRARY_PATH=$double:$LD_LIBRARY_PATH
    bench 2 staging --bytes=9M --rounds=2 --warmup=0
    [[ $output != *"configured --with-cuda=no"* ]] || skip 'hvd was configured --with-cuda=no'
    [[ $output == *"staging: allreduce of 9 MiB, 2 ranks on 1 node, on double of GPU 0, 2 rounds"* ]]
    has "  right; no figures, because this is no GPU"
    bench 2 staging --collective=broadcast --bytes=100K --rounds=1 --json
    [ "$(objects case collective bytes hvd_us)" = "staging broadcast 102400 -" ]
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
    local -A tensor=([allreduce]=fc.bias [small]=tensor.7 [latency]=tensor.0 [sweep]=tensor.0)
    local -A options=([allreduce]="--no-mpi --model=$model" [small]="--no-mpi --tensors=20" [latency]=--no-mpi
        [sweep]="--no-mpi --to=4")
    # the first reduction is wrong, and then the second, when names are cached
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
    [ "$output" = "hvdbench: no case was given; expected allreduce, small, latency, sweep, p2p, idle, launch, overhead or staging" ]
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
    sed -n 's/^    \(-[a-zA-Z], \)*--\([a-z-]*\).*/\2/p' <<<"$output" | sort -u >"$BATS_TEST_TMPDIR/options"
    grep '^\.It Fl' "$HVD_SOURCE/man/hvdbench.1" | grep -oE 'Fl -[a-z-]+' | cut -c5- | sort -u | diff "$BATS_TEST_TMPDIR/options" -
}
