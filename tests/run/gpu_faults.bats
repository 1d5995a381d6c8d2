#!/usr/bin/env bats
# gpu_faults.bats: calls of CUDA and NCCL that fail, one in each job, over the doubles: real ranks and libhvd, and no GPU.
# Some by chance; all of them take minutes:
#
#     FAULTS=all bats tests/run/gpu_faults.bats

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    double=$HVD_BUILD/tests/double/cuda/.libs
    nccl=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2
    need_hvdrun
    [ -e "$double/libcuda.so.1" ] || skip 'hvd was configured --with-cuda=no'
}

# faults N NCCL WHICH...: the rounds that WHICH says on N ranks with a GPU for each, over the double of NCCL or without
faults() {
    local count=$1 library=$2 limit=100
    shift 2
    [ -z "${FAULTS:-}" ] || limit=3000
    run timeout -k 5 $limit env LD_LIBRARY_PATH="$double:$LD_LIBRARY_PATH" HVD_NCCL_LIBRARY="$library" GPU_OF_EACH=1 \
        HVD_FUSION=256K HVD_STALL_WARN=10s HVD_HANG_ABORT=20s "$hvdrun" --no-prefix -n "$count" "$HVD_BUILD/tests/run/gpu_faults" "$@"
    echo "$output"
    # the program counts what is held; what the doubles print at the end is lost where a call that gives it back failed
    [ "$status" -eq 0 ]
}

@test "a call that fails is told of, and leaves nothing behind, where NCCL carries tensors" {
    [ -e "$nccl" ] || skip 'the double of libnccl is not built: it needs nccl.h'
    # shellcheck disable=SC2086 # several words
    faults 2 "$nccl" ${FAULTS:-few 40 29}
}

@test "a call that fails is told of, and leaves nothing behind, where tensors go through the host" {
    # shellcheck disable=SC2086 # several words
    faults 2 /none ${FAULTS:-few 40 29}
}
