#!/usr/bin/env bats
# hvdinfo_doctor.bats: hvdinfo doctor alone and on the ranks of a job: a line for each check, and an exit status.

setup() {
    load setup
    hvdinfo=$HVD_BUILD/bin/hvdinfo
    hvdrun=$HVD_BUILD/bin/hvdrun
}

@test "each line of the doctor is a result, a check, what was found and how to mend it" {
    run "$hvdinfo" doctor --node
    [ "$status" -eq 0 ] || printf '%s\n' "$output" | grep -q '^fail '
    for check in options launcher elastic plug-in PMIx MPI "MPI on GPUs" NCCL hwloc interfaces /dev/shm memlock nofile stack Python; do
        grep -Eq "^(ok  |warn|fail) $check: " <<<"$output"
    done
    [ "$(grep -cvE '^(ok  |warn|fail) [^:]+: ' <<<"$output")" -eq 0 ]
    [[ $output != *clocks:* ]]
}

@test "what fails is told with its cure, and in the exit status" {
    HVD_FUSION=64Q run "$hvdinfo" doctor --node
    [ "$status" -eq 1 ]
    has "fail options: HVD_FUSION=64Q: the value has an unknown unit"
    has ": correct it where it is set"
    PMIX_MCA_gds=ds21 run "$hvdinfo" doctor --node
    has "warn PMIx settings: PMIX_MCA_gds=ds21"
    need_hvdrun
    HVD_MODULE_PATH=/nowhere run "$hvdinfo" doctor --node
    has "wireup_pmix.so is not in /nowhere: install PMIx's library"
}

@test "the doctor names NCCL's file, also that of pip, which only programs with torch find" {
    local nccl=$HVD_BUILD/tests/double/nccl/.libs/libnccl.so.2 usual=$BATS_TEST_TMPDIR/usual site=$BATS_TEST_TMPDIR/site
    [ -e "$nccl" ] || skip 'the double of libnccl is not built: it needs nccl.h'
    HVD_NCCL_LIBRARY=$nccl run "$hvdinfo" doctor --node
    grep -E "^ok   NCCL: 2\.[0-9.]+; ${nccl:0:100}.*, named by --hvd-nccl-library; it chooses its interfaces" <<<"$output"
    mkdir -p "$usual" "$site/nvidia/nccl/lib"
    echo 'no library' >"$usual/libnccl.so.2" # before one of this machine
    export LD_LIBRARY_PATH=$usual PYTHONPATH=$site
    run "$hvdinfo" doctor --node
    [[ $output == *'NCCL: '*'not '* ]]
    ln -s "$nccl" "$site/nvidia/nccl/lib/libnccl.so.2"
    run "$hvdinfo" doctor --node
    grep -E '^ok   NCCL: 2\.[0-9.]+; .*, which programs with torch find, others by --hvd-nccl-library;' <<<"$output"
    cp "$nccl" "$usual/libnccl.so.2"
    run "$hvdinfo"
    has "; $usual/libnccl.so.2 can be loaded"
}

@test "whether MPI is CUDA-aware is told where that matters" {
    [ -e "$HVD_BUILD/core/.libs/backend_mpi.so" ] || skip 'the MPI backend is not built'
    run "$hvdinfo" doctor --node
    has "ok   MPI on GPUs: "
    HVD_MPI_GPU=on run "$hvdinfo" doctor --node
    [[ $output == *'MPI: Open MPI v'[1-4].* ]] || skip 'this MPI tells it only when it has started'
    has "warn MPI on GPUs: MPI is not CUDA-aware: it is given copies: install an MPI that is CUDA-aware, or leave out --hvd-mpi-gpu"
    HVD_MPI_GPU=on LD_PRELOAD=$HVD_BUILD/tests/run/.libs/cuda_aware.so run "$hvdinfo" doctor --node
    grep -x 'ok   MPI on GPUs: MPI is CUDA-aware' <<<"$output"
}

@test "--json is an array with an object for each line" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    "$hvdinfo" doctor --node --json >"$BATS_TEST_TMPDIR/json" || true
    answers=$("$hvdinfo" doctor --node | wc -l)
    run python3 - "$BATS_TEST_TMPDIR/json" "$answers" <<'END'
import json, sys
answers = json.load(open(sys.argv[1]))
assert len(answers) == int(sys.argv[2])
for answer in answers:
    assert set(answer) == {"check", "result", "what", "mend", "hosts"}
    assert answer["result"] in ("ok", "warn", "fail")
    assert (answer["mend"] == "") == (answer["result"] == "ok") and len(answer["hosts"]) == 1
END
    [ "$status" -eq 0 ]
}

@test "the ranks of a job answer together, each line once" {
    need_hvdrun
    run "$hvdrun" -n 3 --no-prefix "$hvdinfo" doctor
    [ "$status" -eq 0 ] || printf '%s\n' "$output" | grep -q '^fail '
    has "ok   launcher: hvdrun"
    has "ok   versions: hvd "
    has "ok   world: 3 ranks, as the launcher says"
    grep -q "^ok   clocks: agree within" <<<"$output" || grep -q "^warn clocks: " <<<"$output"
    [ "$(grep -c 'nofile:' <<<"$output")" -eq 1 ]
}

@test "a launcher inside another is found" {
    need_hvdrun
    SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 run "$hvdrun" -n 1 --no-prefix "$hvdinfo" doctor
    [ "$status" -eq 1 ]
    has "fail launcher: hvdrun runs inside srun, whose 2 tasks each start a job of their own: leave one of the two out"
}

@test "a job that cannot start is a line beside those that are not ok" {
    RANK=0 WORLD_SIZE=2 HVD_MODULE_PATH=/nowhere run "$hvdinfo" doctor
    [ "$status" -eq 1 ]
    has "fail start: "
    [[ $output != *"ok   "* ]]
    [ ! -x "$hvdrun" ] || has "fail PMIx: "
    # others print theirs beside it
    [ "$(grep -cv "^$(hostname): \(fail\|warn\) [^:]*: " <<<"$output")" -eq 0 ]
}

@test "a name that does not resolve is told" {
    MASTER_ADDR=nowhere.invalid run "$hvdinfo" doctor --node
    [ "$status" -eq 1 ]
    has "fail names: MASTER_ADDR=nowhere.invalid does not resolve here ("
    has "): add it to the DNS, or to /etc/hosts of each node"
    MASTER_ADDR=127.0.0.1 run "$hvdinfo" doctor --node
    has " names: "
    [[ $output != *"fail names"* ]]
}

@test "an argument that the doctor does not know is refused" {
    run "$hvdinfo" doctor --nodes
    [ "$status" -eq 1 ]
    has "hvdinfo doctor: --nodes: expected --node, --json, or nothing"
    run "$hvdinfo" doctor --help
    [ "$status" -eq 0 ]
    has "usage: hvdinfo doctor"
}
