#!/usr/bin/env bats
# gpu.bats: tensors on GPUs, over the double of CUDA's driver in tests/double: real ranks and libhvd, and no GPU.

bats_require_minimum_version 1.5.0
load setup

setup() {
    export HVD_NCCL_LIBRARY=$BATS_TEST_TMPDIR/none.so # NCCL itself does not work with the double of CUDA
    hvdrun=$HVD_BUILD/bin/hvdrun
    double=$HVD_BUILD/tests/double/cuda/.libs
    nccl=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2
    need_hvdrun
    [ -e "$double/libcuda.so.1" ] || skip 'hvd was configured --with-cuda=no'
}

# nccl N PROGRAM...: run it on N ranks with a GPU for each and the double of NCCL, which must have no complaint
nccl() {
    local count=$1
    shift
    [ -e "$nccl" ] || skip 'the double of libnccl is not built: it needs nccl.h'
    run timeout -k 5 100 env LD_LIBRARY_PATH="$double:$LD_LIBRARY_PATH" HVD_NCCL_LIBRARY="$nccl" GPU_OF_EACH=1 \
        "$hvdrun" --no-prefix -n "$count" "$@"
    echo "$output"
    [[ $output != *'double of libnccl'* ]]
}

# ranks N PROGRAM...: run it on N ranks with the double, which must exit with 0
ranks() {
    local count=$1
    shift
    run timeout -k 5 100 env LD_LIBRARY_PATH="$double:$LD_LIBRARY_PATH" "$hvdrun" --no-prefix -n "$count" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# fused COUNT VARIABLE=VALUE...: batches go through the fusion buffer, of which COUNT at each rank are in memory that
# NCCL has registered; rank 1 has these variables
fused() {
    local count=$1
    shift
    # shellcheck disable=SC2016 # the ranks' shells expand it
    HVD_DOUBLE_NCCL_COUNTS=1 nccl 3 bash -c \
        'program=$1; shift; [ "$LOCAL_RANK" != 1 ] || export "$@"; exec "$program" fused' - "$HVD_BUILD/tests/run/gpu" "$@"
    [ "$status" -eq 0 ]
    [ "$(grep -c "of 3: [0-9]* launches, $count operations in registered memory" <<<"$output")" -eq 3 ]
}

# moved PAIRS COUNT N PROGRAM...: on N ranks NCCL connects so many pairs, for COUNT messages of each
moved() {
    local pairs=$1 count=$2
    shift 2
    HVD_DOUBLE_NCCL_COUNTS=1 nccl "$@"
    [ "$status" -eq 0 ]
    [ "$(grep -c "of 2: $count launches" <<<"$output")" -eq $((2 * pairs)) ]
    [ "$(grep -c 'of 2: [0-9]* launches' <<<"$output")" -eq $((2 * pairs)) ]
}

@test "random operations on tensors in device memory, through the host" {
    export PROPERTY_GPU=1
    ranks 1 "$HVD_BUILD/tests/run/property" 1 100 1
    ranks 2 "$HVD_BUILD/tests/run/property" 2 100 2
    ranks 4 "$HVD_BUILD/tests/run/property" 4 60 4
}

@test "a stream waits for an operation, and the host does not" {
    ranks 2 "$HVD_BUILD/tests/run/gpu" streams
}

@test "a result is the program's as soon as the operation is launched" {
    ranks 3 "$HVD_BUILD/tests/run/gpu" gathers
    nccl 3 "$HVD_BUILD/tests/run/gpu" gathers
    [ "$status" -eq 0 ]
}

@test "host memory on one rank and a GPU on another is a mismatch that names both" {
    ranks 3 "$HVD_BUILD/tests/run/gpu" mismatch
}

@test "a second GPU, results from malloc and tensors half on the GPU are refused" {
    ranks 2 "$HVD_BUILD/tests/run/gpu" refused
}

@test "ranks that have joined take part with zeros, without a GPU" {
    ranks 3 "$HVD_BUILD/tests/run/gpu" join
}

@test "random operations on tensors in device memory, by NCCL" {
    local seed
    for seed in 1 2 3 8; do # as many ranks
        nccl $seed env PROPERTY_GPU=1 PROPERTY_NCCL=1 "$HVD_BUILD/tests/run/property" $seed 40 $seed
        [ "$status" -eq 0 ]
    done
}

@test "a stream waits for an operation that NCCL carries, and the host does not" {
    export HVD_LOG=info
    nccl 3 "$HVD_BUILD/tests/run/gpu" streams
    [ "$status" -eq 0 ]
    [[ $output == *"NCCL is $nccl, named by --hvd-nccl-library"* ]]
    [[ $output == *'process set 0: NCCL '*' connects 3 GPUs'* ]]
}

@test "NCCL that the program has loaded comes before one that is named, and rank 0 says so once" {
    [ -e "$nccl" ] || skip 'the double of libnccl is not built: it needs nccl.h'
    local other=${nccl%/*}/libnccl218.so.2
    nccl 3 env LD_PRELOAD="$nccl" HVD_NCCL_LIBRARY="$other" "$HVD_BUILD/tests/run/gpu" streams
    [ "$status" -eq 0 ]
    [ "$(grep -c "NCCL is $nccl, loaded by this process before; not used is --hvd-nccl-library=$other" <<<"$output")" -eq 1 ]
}

@test "NCCL registers the fusion buffer, unless a rank's NCCL does not" {
    fused 6 NONE=1
    fused 0 NCCL_LOCAL_REGISTER=0
    fused 0 HVD_DOUBLE_NCCL_FAIL=ncclCommRegister:1
    fused 0 HVD_DOUBLE_NCCL_FAIL=ncclMemAlloc:1
    fused 0 HVD_NCCL_LIBRARY="${nccl%/*}/libnccl218.so.2" # knows nothing of it
}

@test "a process set gets its communicator out of the one of all ranks, or finds itself" {
    # no second id is asked for
    nccl 3 env HVD_DOUBLE_NCCL_FAIL=ncclGetUniqueId:2 HVD_LOG=info "$HVD_BUILD/tests/run/gpu" sets
    [ "$status" -eq 0 ]
    [[ $output == *'process set 1: NCCL '*' connects 2 GPUs'*'process set 2: NCCL '*' connects 2 GPUs'* ]]
    nccl 3 "$HVD_BUILD/tests/run/gpu" 'early sets'
    [ "$status" -eq 0 ]
    nccl 3 env HVD_DOUBLE_NCCL_FAIL=ncclCommSplit:1 "$HVD_BUILD/tests/run/gpu" sets
    [ "$status" -ne 0 ]
    [[ $output == *'process set 0 cannot be split: NCCL: unhandled cuda error'* ]]
}

@test "batches of a unit are launched in one group" {
    HVD_DOUBLE_NCCL_COUNTS=1 nccl 3 "$HVD_BUILD/tests/run/gpu" grouped
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 3: 6 launches, 15 operations in registered memory' <<<"$output")" -eq 3 ]
    ranks 2 env HVD_NCCL_LIBRARY="$nccl" "$HVD_BUILD/tests/run/gpu" grouped # with one GPU, through the host
}

@test "GPUs of sets that overlap in a circle do not wait for each other" {
    nccl 3 "$HVD_BUILD/tests/run/gpu" circle
    [ "$status" -eq 0 ]
}

@test "an average by three of a half type is exact, and needs no buffer" {
    HVD_DOUBLE_NCCL_COUNTS=1 nccl 3 "$HVD_BUILD/tests/run/gpu" average
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 3: 4 launches, 0 operations in registered memory' <<<"$output")" -eq 3 ]
}

@test "NCCL reduces float8 where it is new enough, and moves them anyhow" {
    HVD_DOUBLE_NCCL_COUNTS=1 nccl 3 "$HVD_BUILD/tests/run/gpu" float8
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 3: 6 launches,' <<<"$output")" -eq 3 ]
    export HVD_DOUBLE_NCCL_COUNTS=1
    nccl 3 env HVD_DOUBLE_NCCL_VERSION=22304 "$HVD_BUILD/tests/run/gpu" float8
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 3: 2 launches,' <<<"$output")" -eq 3 ]
    nccl 3 env HVD_DOUBLE_CUDA_CAPABILITY=8 "$HVD_BUILD/tests/run/gpu" float8
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 3: 2 launches,' <<<"$output")" -eq 3 ]
}

@test "a share that goes onto the input is written when nobody reads that any more" {
    nccl 3 "$HVD_BUILD/tests/run/gpu" share
    [ "$status" -eq 0 ]
    ranks 3 "$HVD_BUILD/tests/run/gpu" share # through the host
}

@test "other operations go on while NCCL looks at networks" {
    nccl 2 env HVD_DOUBLE_NCCL_GATE="$BATS_TEST_TMPDIR/gate" "$HVD_BUILD/tests/run/gpu" gate
    [ "$status" -eq 0 ]
}

@test "NCCL that looks at networks for ever is given up" {
    nccl 2 env HVD_STALL_WARN=500ms HVD_HANG_ABORT=1s HVD_DOUBLE_NCCL_GATE="$BATS_TEST_TMPDIR/none" "$HVD_BUILD/tests/run/gpu" 'shut gate'
    [ "$status" -eq 3 ]
    [ "$(grep -c 'rank . has left' <<<"$output")" -eq 2 ]
}

@test "ranks with one GPU go through the host, and are told so once" {
    [ -e "$nccl" ] || skip 'the double of libnccl is not built: it needs nccl.h'
    ranks 2 env HVD_NCCL_LIBRARY="$nccl" "$HVD_BUILD/tests/run/gpu" streams
    [ "$(grep -c 'ranks 0 and 1 have the same GPU, which NCCL does not take' <<<"$output")" -eq 1 ]
}

@test "a rank that uses another GPU than placement gave it is told so" {
    local sentence='tensors of this rank are on GPU 0, but its cores and network cards are those near GPU 1; '
    ranks 2 env HVD_LOCAL_DEVICE=1 HVD_GPU_PCI=0000:17:00.0 "$HVD_BUILD/tests/run/gpu" streams
    [ "$(grep -c "$sentence" <<<"$output")" -eq 2 ]
    for given in 'HVD_LOCAL_DEVICE=0 HVD_GPU_PCI=0000:17:00.0' 'HVD_LOCAL_DEVICE=1 HVD_GPU_PCI=0000:17:00.0,0000:27:00.0'; do
        # shellcheck disable=SC2086 # two variables
        ranks 2 env $given "$HVD_BUILD/tests/run/gpu" streams
        [[ $output != *'near GPU'* ]]
    done
}

@test "without NCCL tensors go through the host, and the option that names it is told once" {
    [ -e "$nccl" ] || skip 'hvd was configured --with-nccl=no'
    ranks 2 "$HVD_BUILD/tests/run/gpu" streams
    [ "$(grep -c 'NCCL cannot be loaded.*--hvd-nccl-library' <<<"$output")" -eq 1 ]
    ranks 2 env HVD_BACKENDS=shm "$HVD_BUILD/tests/run/gpu" streams
    [[ $output != *NCCL* ]]
}

@test "a rank that dies while GPUs wait for it is named" {
    nccl 3 "$HVD_BUILD/tests/run/gpu" lost
    [ "$status" -eq 137 ]
    [[ $output == *'rank 2 ('*'failed first: killed by SIGKILL'* ]]
    [[ $output != *expected* ]]
}

@test "an operation that hangs on the GPU, or while GPUs connect, is told of and ends" {
    local work
    for work in 3 0; do # the third, or connecting
        nccl 3 env HVD_STALL_WARN=500ms HVD_HANG_ABORT=1s HVD_DOUBLE_NCCL_HANG=$work "$HVD_BUILD/tests/run/gpu" hang
        [ "$status" -eq 3 ]
        [[ $output == *'hang-abort: in allreduce "w", which has not moved for'* ]]
        [[ $output != *expected* ]]
    done
}

@test "a rank that stands still while an operation is on the GPU is named" {
    nccl 3 env HVD_STALL_WARN=500ms HVD_HANG_ABORT=1s "$HVD_BUILD/tests/run/gpu" stopped
    [ "$status" -eq 3 ]
    [[ $output != *expected* ]]
}

@test "a rank whose GPU computes for long is named, and may" {
    nccl 3 env HVD_STALL_WARN=1s HVD_HANG_ABORT=2s "$HVD_BUILD/tests/run/gpu" busy
    [ "$status" -eq 0 ]
    [[ $output == *'stall: in allreduce "late", which has not moved for 1.'*': rank 2 ('*') has not begun it: its GPU is at work on what its program put before it'* ]]
    [[ $output != *hang-abort* ]]
}

@test "after a loss no communicator of another set is waited for" {
    nccl 4 "$HVD_BUILD/tests/run/gpu" 'lost sets'
    [ "$status" -eq 137 ]
    [ "$(grep -c 'rank . has left' <<<"$output")" -eq 3 ]
}

@test "in steady work the host makes no call that waits for the GPU, and runs ahead of it" {
    nccl 3 "$HVD_BUILD/tests/run/gpu" steady
    [ "$status" -eq 0 ]
    ranks 3 "$HVD_BUILD/tests/run/gpu" steady # through the host: it waits for the copies, but by events
    nccl 3 "$HVD_BUILD/tests/run/gpu" ahead
    [ "$status" -eq 0 ]
}

@test "an operation that NCCL carries waits for what its stream had to do before" {
    nccl 3 "$HVD_BUILD/tests/run/gpu_large" late
    [ "$status" -eq 0 ]
}

@test "a stream that is captured into a graph is refused, and a capture beside hvd's work is not spoiled" {
    nccl 2 "$HVD_BUILD/tests/run/gpu" capture
    [ "$status" -eq 0 ]
    ranks 2 "$HVD_BUILD/tests/run/gpu" capture
}

@test "batches through the host are copied while others are at work, and keep apart" {
    ranks 3 env HVD_FUSION=0 "$HVD_BUILD/tests/run/gpu" many
    ranks 2 env HVD_DOUBLE_CUDA_DELAY_US=300 "$HVD_BUILD/tests/run/gpu" many
    ranks 1 env HVD_FUSION=100K "$HVD_BUILD/tests/run/gpu" many
}

@test "large tensors through the host are cut, and some is copied while some is at work" {
    HVD_DOUBLE_CUDA_COUNTS=1 ranks 3 "$HVD_BUILD/tests/run/gpu_large" sums
    # a sum takes four batches, of which two have two tensors; rank 0 has three, the others two. A broadcast takes four,
    # which the last rank alone reads, and does not copy back
    [ "$(grep -c ': 18 copies to the host, at most 3 ahead of the copies back' <<<"$output")" -eq 1 ]
    [ "$(grep -c ': 12 copies to the host, at most 3 ahead of the copies back' <<<"$output")" -eq 1 ]
    [ "$(grep -c ': 16 copies to the host, at most 4 ahead of the copies back' <<<"$output")" -eq 1 ]
    HVD_DOUBLE_CUDA_BACK_US=30000 ranks 2 "$HVD_BUILD/tests/run/gpu_large" sums
    ranks 1 "$HVD_BUILD/tests/run/gpu_large" sums
}

@test "messages of tensors go from GPU to GPU, in order, when their streams have come so far" {
    local case
    for case in ring mixed order late behind many refused; do
        ranks 3 env HVD_DOUBLE_CUDA_DELAY_US=200 "$HVD_BUILD/tests/run/gpu_messages" $case
        nccl 3 env HVD_DOUBLE_CUDA_DELAY_US=200 "$HVD_BUILD/tests/run/gpu_messages" $case
        [ "$status" -eq 0 ]
    done
    HVD_BACKENDS=tcp ranks 2 "$HVD_BUILD/tests/run/gpu_messages" ring
    HVD_BACKENDS=nccl,tcp nccl 2 "$HVD_BUILD/tests/run/gpu_messages" ring
    [ "$status" -eq 0 ]
}

@test "a message whose stream stands still ends the job after a while, and says why" {
    nccl 1 env HVD_STALL_ABORT=1s "$HVD_BUILD/tests/run/gpu_messages" stands
    [ "$status" -eq 3 ]
    [[ $output == *'job: stall-abort: in send of float32[1000] to rank 0 with tag 1 for '*' waits for its own GPU'* ]]
}

@test "NCCL carries messages of many ranks to each other, large ones, and none of two ranks on one GPU" {
    moved 12 3 4 "$HVD_BUILD/tests/run/gpu_messages" crowd
    moved 3 2 3 "$HVD_BUILD/tests/run/gpu_messages" ring # two of five are large
    moved 0 0 2 env -u GPU_OF_EACH HVD_LOG=info "$HVD_BUILD/tests/run/gpu_messages" ring
    [[ $output == *'messages: those of ranks 0 and 1 go through host memory: ranks 0 and 1 have the same GPU'* ]]
}

@test "a rank that dies while NCCL carries a message is named, and an NCCL that fails says of which ranks" {
    local report=$BATS_TEST_TMPDIR/report
    HVD_DOUBLE_REPORT=$report nccl 3 "$HVD_BUILD/tests/run/gpu_messages" lost
    [[ $output == *'rank 2 ('*'failed first: killed by SIGKILL'* ]]
    [[ $output != *expected* ]]
    run ! grep -E 'streams|events|communicator' "$report"
    nccl 2 env HVD_DOUBLE_NCCL_FAIL=ncclSend:1 "$HVD_BUILD/tests/run/gpu_messages" ring
    [ "$status" -ne 0 ]
    [[ $output == *'messages of ranks 0 and 1: a message cannot be launched: NCCL: unhandled cuda error'* ]]
}

@test "a rank that dies while large tensors go through the host is named, and the others give back what they have" {
    export HVD_DOUBLE_REPORT=$BATS_TEST_TMPDIR/report
    run ranks 3 env HVD_DOUBLE_CUDA_DELAY_US=5000 "$HVD_BUILD/tests/run/gpu_large" lost
    echo "$output"
    [[ $output == *'rank 2 ('*'failed first: killed by SIGKILL'* ]]
    [[ $output != *expected* ]]
    run ! grep -E 'streams|events|memory' "$HVD_DOUBLE_REPORT"
}

@test "results from the host do not wait for tensors that the program has not computed" {
    # fusion would make one batch of both
    HVD_DOUBLE_CUDA_BACK_US=30000 ranks 2 env HVD_FUSION=0 HVD_PROGRESS=block "$HVD_BUILD/tests/run/gpu_large" behind
}

@test "a CUDA-aware MPI is given tensors where they are on the GPU, where that is asked for" {
    local aware="LD_PRELOAD=$HVD_BUILD/tests/run/.libs/cuda_aware.so"
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'the MPI backend is not built'
    export HVD_BACKENDS=mpi HVD_DOUBLE_CUDA_COUNTS=1 HVD_DOUBLE_CUDA_PROTECT=0
    ranks 3 env "$aware" HVD_MPI_GPU=on "$HVD_BUILD/tests/run/gpu" moves # the first operation starts MPI
    [ "$(grep -c ': [01] copies to the host' <<<"$output")" -eq 3 ]
    ranks 3 env "$aware" "$HVD_BUILD/tests/run/gpu" moves
    # all gather and exchange four times; the last rank has the tensors of four broadcasts
    [ "$(grep -c ': 8 copies to the host' <<<"$output")" -eq 2 ]
    [ "$(grep -c ': 12 copies to the host' <<<"$output")" -eq 1 ]
    [[ $output != *'MPI says'* ]]
    ranks 3 env "$aware" HVD_MPI_GPU=on PROPERTY_GPU=1 "$HVD_BUILD/tests/run/property" 1 100 3
}

@test "a CUDA-aware MPI gives up memory of the GPU with the GPU's context" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'the MPI backend is not built'
    local folder=$HVD_BUILD/tests/run/.libs
    # shellcheck disable=SC2016 # the ranks' shells expand it
    run ranks 3 env HVD_DOUBLE_CUDA_PROTECT=0 LD_PRELOAD="$folder/cuda_aware.so:$folder/mpi_cancel.so" HVD_BACKENDS=mpi HVD_MPI_GPU=on \
        TESTED="$BATS_TEST_TMPDIR/tested" bash -c \
        '[ "$LOCAL_RANK" != 2 ] || export HVD_DOUBLE_CUDA_DELAY_US=30000000; exec "$0" "lost before sending"' \
        "$HVD_BUILD/tests/run/gpu_mpi"
    echo "$output"
    [ "$(grep -c '^rank . has left' <<<"$output")" -eq 2 ]
    [ "$(grep -c 'MPI_Cancel with a context' <<<"$output")" -eq 2 ]
    [[ $output != *'MPI_Cancel without a context'* ]]
}

@test "an MPI that is not CUDA-aware is given copies, and rank 0 says so where its opposite is asked for" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'the MPI backend is not built'
    ompi_info --parsable --all 2>/dev/null | grep -q 'mpi_built_with_cuda_support:value:false' ||
        skip 'this MPI is CUDA-aware, or it is not known'
    ranks 3 env HVD_BACKENDS=mpi HVD_MPI_GPU=on "$HVD_BUILD/tests/run/gpu" moves
    [ "$(grep -c 'this MPI says that it is not CUDA-aware' <<<"$output")" -eq 1 ]
}

@test "gpu-check runs to its end on the doubles, keeps results, and says what fails" {
    local build=$BATS_TEST_TMPDIR/build tools=$BATS_TEST_TMPDIR/tools steps=(pack nccl-random graph-graph host-told
        bench-overhead bench-split bench-staging-2)
    [ -e "$nccl" ] || skip 'the double of libnccl is not built: it needs nccl.h'
    mkdir -p "$build"/tests/{run,unit/cuda} "$tools"
    ln -s "$HVD_BUILD"/{bin,env.sh} "$build"
    ln -s "$HVD_BUILD"/tests/{gpu,bench} "$build/tests"
    ln -s "$HVD_BUILD"/tests/run/{gpu,gpu_persistent,property} "$build/tests/run"
    ln -s /bin/true "$build/tests/unit/cuda/test_gpu" # it takes long with as much as a GPU is given
    # shellcheck disable=SC2016 # that script expands it
    printf '%s\n' '#!/bin/bash' 'echo "sanitizer: $*"' >"$tools/compute-sanitizer"
    chmod +x "$tools/compute-sanitizer"
    local gpu_check=(env PATH="$tools:$PATH" LD_LIBRARY_PATH="$double:$LD_LIBRARY_PATH" HVD_BUILD="$build" PYTHON=/bin/false
        HVD_DOUBLE_CUDA_DEVICES=1 timeout -k 5 100 bash "$HVD_SOURCE/tests/gpu/gpu-check")
    HVD_NCCL_LIBRARY=$nccl run "${gpu_check[@]}" "${steps[@]}" torch
    echo "$output"
    [ "$status" -eq 0 ]
    has 'gpu-check: double of GPU 0, driver unknown, CUDA 13.0, NCCL 2.'
    [ "$(sed -n 's/^passed  \([a-z0-9-]*\) .*/\1/p' <<<"$output" | xargs)" = "${steps[*]}" ]
    has "skipped torch                  torch's tensors on the GPU, by NCCL: /bin/false cannot be run"
    grep -q "\"nccl_file\": \"$nccl, named by" "$build/results/results.json"
    ln -sf /bin/false "$build/tests/run/property"
    HVD_NCCL_LIBRARY=$nccl run "${gpu_check[@]}" "${steps[@]}" # all have results
    [ "$status" -eq 0 ]
    HVD_NCCL_LIBRARY=$nccl run "${gpu_check[@]}" --again nccl-random graph-graph
    [ "$status" -eq 1 ]
    has 'FAILED  nccl-random            random operations by NCCL: status 1, see steps/nccl-random.out'
    has 'passed  graph-graph '
    HVD_NCCL_LIBRARY=/none run "${gpu_check[@]}" nccl-streams
    [ "$status" -eq 0 ]
    has 'skipped nccl-streams           tests/run/gpu streams, by NCCL: NCCL cannot be loaded: /none'
    HVD_NCCL_LIBRARY=$nccl run "${gpu_check[@]}" --sanitize
    [ "$status" -eq 0 ]
    grep -qx 'sanitizer: --tool memcheck .* tests/run/property 1 20 1' "$build/results/steps/sanitize-random.out"
    run "${gpu_check[@]}" --now
    [ "$status" -eq 2 ]
    has 'gpu-check: --now: no such option; expected --again'
}

@test "without a GPU gpu-check says so of each step" {
    [ ! -e /proc/driver/nvidia/version ] || skip 'there may be a GPU'
    run env HVD_BUILD="$HVD_BUILD" PYTHON=/bin/false timeout -k 5 100 \
        bash "$HVD_SOURCE/tests/gpu/gpu-check" --results="$BATS_TEST_TMPDIR/results" pack 'nccl-*'
    [ "$status" -eq 2 ]
    [ "$(grep -cE "^skipped (pack|nccl-).*: there is no GPU: CUDA's driver library cannot be loaded: libcuda.so.1" <<<"$output")" -ge 10 ]
    run ! grep '^passed' <<<"$output"
}

@test "an error of NCCL ends the job with NCCL's own sentence" {
    local call
    for call in work:3 ncclAllReduce:2 ncclGroupEnd:2; do
        nccl 2 env HVD_DOUBLE_NCCL_FAIL=$call "$HVD_BUILD/tests/run/gpu" broken
        echo "after $call"
        [ "$status" -eq 3 ]
        [[ $output != *expected* ]]
    done
}

@test "after an error of NCCL on one rank all ranks may begin anew, with new communicators" {
    local call
    for call in work:3 ncclAllReduce:2 ncclCommInitRankConfig:1; do
        # shellcheck disable=SC2016 # the ranks' shells expand it
        nccl 3 bash -c '[ "$LOCAL_RANK" != 1 ] || export HVD_DOUBLE_NCCL_FAIL=$1; exec "$2" again' - \
            "$call" "$HVD_BUILD/tests/run/gpu"
        echo "after $call"
        [ "$status" -eq 0 ]
    done
}

@test "a state that is half on the GPU is committed, sent to a new rank, and gone back to" {
    export HVD_DOUBLE_CUDA_DELAY_US=2000 # a commit that does not wait for the program's stream has the old contents
    ranks 1 "$HVD_BUILD/tests/run/gpu_state" commits
    ranks 3 "$HVD_BUILD/tests/run/gpu_state" commits
    export HVD_STATE_DIR=$BATS_TEST_TMPDIR/state
    ranks 2 "$HVD_BUILD/tests/run/gpu_state" commits
    ranks 3 "$HVD_BUILD/tests/run/gpu_state" disk
}
