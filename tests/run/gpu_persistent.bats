#!/usr/bin/env bats
# gpu_persistent.bats: persistent operations, started and in CUDA graphs, over the doubles of CUDA's driver and of NCCL:
# real ranks and libhvd, and no GPU. The double of NCCL complains where ranks meet in another order.

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    double=$HVD_BUILD/tests/double/cuda/.libs
    nccl=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2
    program=$HVD_BUILD/tests/run/gpu_persistent
    need_hvdrun
    [ -e "$double/libcuda.so.1" ] || skip 'hvd was configured --with-cuda=no'
    [ -e "$nccl" ] || skip 'the double of libnccl is not built: it needs nccl.h'
}

# job N VARIABLE=VALUE... CASE: N ranks with a GPU for each, or all with one where one_gpu is set, do what the CASE
# promises
job() {
    local count=$1
    shift
    run timeout -k 5 100 env LD_LIBRARY_PATH="$double:$LD_LIBRARY_PATH" HVD_NCCL_LIBRARY="$nccl" "${one_gpu:-GPU_OF_EACH=1}" \
        "${@:1:$#-1}" "$hvdrun" --no-prefix -n "$count" "$program" "${@: -1}"
    echo "$output"
    [[ $output != *'double of libnccl'* ]]
}

# good N VARIABLE=VALUE... CASE: the job succeeds, and nothing that it had on a GPU is left
good() {
    job "$@"
    [ "$status" -eq 0 ]
    [[ $output != *'were not'* ]]
}

@test "a persistent operation is started again and again, in order with others" {
    good 1 HVD_FUSION=64K starts
    good 2 HVD_FUSION=64K starts
    good 4 HVD_FUSION=64K HVD_DOUBLE_CUDA_DELAY_US=200 starts
    good 3 HVD_PROGRESS=block HVD_FUSION=0 starts
    good 3 behind
}

@test "its factors and its wire type are those of the operation that runs once" {
    good 3 factors
    good 2 factors
}

@test "a graph repeats broadcasts, allgathers of uneven rows and reducescatters" {
    good 1 kinds
    good 2 kinds
    good 4 HVD_DOUBLE_CUDA_DELAY_US=200 kinds
    program=$HVD_BUILD/tests/run/gpu_large good 2 HVD_FUSION=8K 'several gathers'
}

@test "while it is in a graph other operations on the GPU are refused, and those of the host go on" {
    good 1 HVD_FUSION=64K graph
    good 2 HVD_FUSION=64K graph
    good 4 HVD_FUSION=64K HVD_DOUBLE_CUDA_DELAY_US=200 graph
}

@test "a rank alone needs no NCCL: its tensors are copied and scaled in the stream" {
    good 1 HVD_NCCL_LIBRARY=/none HVD_FUSION=64K starts
    good 1 HVD_NCCL_LIBRARY=/none HVD_FUSION=0 starts
    good 1 HVD_NCCL_LIBRARY=/none factors
    good 1 HVD_NCCL_LIBRARY=/none kinds
    good 1 HVD_NCCL_LIBRARY=/none HVD_FUSION=64K graph
    good 1 HVD_NCCL_LIBRARY=/none alone
    program=$HVD_BUILD/tests/run/gpu_large good 1 HVD_NCCL_LIBRARY=/none HVD_FUSION=8K 'several gathers'
    good 1 alone # a type that NCCL does not reduce
}

@test "a capture waits until the GPU has done what hvd gave it" {
    good 3 HVD_DOUBLE_CUDA_DELAY_US=20000 captures
}

@test "ranks that disagree are told both sides" {
    job 3 mismatch
    [ "$status" -eq 0 ]
}

@test "what NCCL does not carry is refused on all ranks" {
    job 2 unsupported
    [ "$status" -eq 0 ]
    one_gpu=ONE=1 job 2 REFUSAL='ranks 0 and 1 have the same GPU, which NCCL does not take' refused
    [ "$status" -eq 0 ]
    job 2 HVD_NCCL_LIBRARY=/none REFUSAL='or a rank has no NCCL' refused
    [ "$status" -eq 0 ]
}

@test "it ends with its process set, and waits for ranks that join" {
    good 3 sets
    good 3 HVD_DOUBLE_CUDA_DELAY_US=1000 sets
    good 3 joined
}

@test "tensors in memory of hvd_alloc_on are registered where all ranks have them at the same offset" {
    good 3 HVD_DOUBLE_NCCL_COUNTS=1 placed
    [ "$(grep -c 'of 3: 4 launches, 2 operations in registered memory' <<<"$output")" -eq 3 ]
}

@test "starts make no call that waits for the GPU, and what was freed goes back to it" {
    good 3 HVD_FUSION=64K steady
    good 3 HVD_FUSION=64K many
}

@test "hvd_shutdown frees what is left, and does not wait for a graph for long" {
    good 2 left
    good 2 HVD_DOUBLE_CUDA_DELAY_US=20000 left
    good 2 again
    job 2 'left graph'
    [ "$status" -eq 0 ]
}

@test "a rank that dies is named, in a start and in a graph" {
    local case
    for case in lost 'lost in graph'; do
        job 3 "$case"
        [ "$status" -eq 137 ]
        [[ $output == *'rank 2 ('*'failed first: killed by SIGKILL'* ]]
        [[ $output != *expected* ]]
    done
}

@test "an error of NCCL in a start or in a graph ends the job with NCCL's own sentence" {
    local call
    for call in ncclAllReduce:1 ncclGroupEnd:1 work:1; do
        job 2 HVD_DOUBLE_NCCL_FAIL=$call broken
        echo "after $call"
        [ "$status" -eq 3 ]
        [[ $output != *expected* ]]
    done
}

@test "a start that one rank does not make is told of and ends" {
    job 3 HVD_STALL_WARN=1s HVD_HANG_ABORT=2s missing
    [ "$status" -eq 3 ]
    [[ $output == *'stall: in persistent allreduce "w", which has not moved for 1.'* ]]
    [[ $output != *expected* ]]
}
