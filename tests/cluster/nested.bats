#!/usr/bin/env bats
# nested.bats: launchers inside launchers. Each rank finds the place that the inner one gives it, or there is one
# sentence.
# shellcheck shell=bash

load helpers

setup_file() {
    cluster_start
    export HVD_JOB_KEY=0123456789abcdef0123 # torchrun gives its ranks none
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    export ASAN_OPTIONS=detect_leaks=0 # of Open MPI
    export HVD_MODULE_PATH=${HVD_MODULE_PATH:-$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs}
}

setup() { :; }

# Outer launcher, inner launcher, how many jobs of two ranks there must be, and the sentence that must be told, if one
# must. An outer launcher starts two tasks.
table() {
    cat <<'END_OF_TABLE'
none     | hvdrun   | 1
none     | srun     | 1
none     | mpirun   | 1
none     | prterun  | 1
none     | mpiexec  | 1
none     | torchrun | 1
hvdrun   | none     | 1
hvdrun   | hvdrun   | 2 | hvdrun has started 2 tasks, and each hvdrun among them starts a job of its own
hvdrun   | mpirun   | 2
hvdrun   | prterun  | 2
hvdrun   | mpiexec  | 2
hvdrun   | torchrun | 2
mpirun   | none     | 1
mpirun   | hvdrun   | 2 | mpirun has started 2 tasks, and each hvdrun among them starts a job of its own
mpirun 4 | mpirun   | 0 | mpirun does not support recursive calls
mpirun 5 | mpirun   | 2
mpirun   | mpiexec  | 2
mpirun   | torchrun | 2
prterun  | none     | 1
prterun  | hvdrun   | 2 | each hvdrun among them starts a job of its own
mpiexec  | none     | 1
mpiexec  | hvdrun   | 2 | mpiexec has started 2 tasks, and each hvdrun among them starts a job of its own
mpiexec  | mpirun   | 2
mpiexec  | mpiexec  | 2
mpiexec  | torchrun | 2
torchrun | hvdrun   | 2
torchrun | mpirun   | 2
torchrun | mpiexec  | 2
parallel | none     | 0 | rank 0 of 1: the sum is 1
parallel | hvdrun   | 2
parallel | srun     | 2
parallel | mpirun   | 2
parallel | prterun  | 2
parallel | mpiexec  | 2
parallel | torchrun | 2
srun     | none     | 1
srun     | hvdrun   | 2 | srun has started 2 tasks, and each hvdrun among them starts a job of its own
srun     | srun     | 2
srun     | mpirun   | 2
srun     | mpiexec  | 2
srun     | torchrun | 2
sbatch   | none     | 0 | the Slurm job has 2 tasks and was given options of hvd: start the program with srun
sbatch   | hvdrun   | 1
sbatch   | srun     | 1
sbatch   | mpirun   | 1
sbatch   | mpiexec  | 1
sbatch   | torchrun | 1
salloc   | none     | 0 | the Slurm job has 2 tasks and was given options of hvd: start the program with srun
salloc   | hvdrun   | 1
salloc   | srun     | 1
salloc   | mpirun   | 1
salloc   | mpiexec  | 1
salloc   | torchrun | 1
END_OF_TABLE
}

# program_of LAUNCHER: the program that must be installed
program_of() {
    case $1 in
    none) echo true ;;
    hvdrun) echo "$HVD_BUILD/bin/hvdrun" ;;
    mpiexec) echo mpiexec.hydra ;;
    *) echo "$1" ;;
    esac
}

# words_of LAUNCHER: its command line for two ranks
words_of() {
    case $1 in
    none) ;;
    hvdrun) echo "$HVD_BUILD/bin/hvdrun -n 2" ;;
    srun) echo 'srun --hvd-fusion=2M --overlap -n 2' ;;
    # mpiexec may be Open MPI's too
    mpiexec) echo 'mpiexec.hydra -n 2' ;;
    torchrun) echo 'torchrun --redirects 1 --tee 1 --no_python --nproc_per_node 2 --monitor_interval 0.1 --rdzv_backend c10d --rdzv_endpoint 127.0.0.1:0' ;;
    parallel) echo 'parallel -n 0 --line-buffer' ;;
    *) echo "$1 -n 2" ;;
    esac
}

# start OUTER INNER: run examples/hello in both; the output goes to the file out
start() {
    local inner
    inner="$(words_of "$2") $HVD_BUILD/examples/hello"
    # shellcheck disable=SC2046,SC2086 # words are words
    case $1 in
    sbatch) sbatch_in 60 -N2 -n2 --hvd-fusion=2M -o "$CLUSTER/out" --wrap "$inner" ;;
    salloc) salloc_in 60 -N2 -n2 --hvd-fusion=2M $inner >"$CLUSTER/out" 2>&1 </dev/null ;;
    srun) srun_in 25 --hvd-fusion=2M -N2 -n2 $inner >"$CLUSTER/out" 2>&1 </dev/null ;;
    parallel) login_in 60 $(words_of parallel) $inner ::: 1 2 >"$CLUSTER/out" 2>&1 </dev/null ;;
    *) login_in 60 $(words_of "$1") $inner >"$CLUSTER/out" 2>&1 </dev/null ;;
    esac || true
}

# row OUTER INNER JOBS SENTENCE: each of the two ranks of each job says its place, and the sentence comes
row() {
    local rank
    start "$1" "$2"
    echo "$1 x $2: expected $3 jobs ${4:+and: $4}"
    cat "$CLUSTER/out"
    for rank in 0 1; do
        [ "$(grep -c "rank $rank of 2: the sum is 3\$" "$CLUSTER/out")" = "$3" ] || return 1
    done
    [ -z "$4" ] || grep -qF -- "$4" "$CLUSTER/out"
}

# rows OUTER: the rows of an outer launcher, and for mpirun those of this version. One whose inner launcher is not
# installed is told.
rows() {
    local outer inner jobs sentence bad=0 mpirun
    mpirun=$(mpirun --version 2>/dev/null | sed -n 's/.*(Open MPI) \([0-9]*\).*/\1/p')
    [ -z "$CLUSTER_WHY_NOT" ] || skip "$CLUSTER_WHY_NOT"
    command -v "$(program_of "$1")" >/dev/null || skip "$1 is not installed"
    while IFS='|' read -r outer inner jobs sentence; do
        outer=${outer// /} inner=${inner// /} jobs=${jobs// /} sentence=${sentence# }
        [ "$outer" = "$1" ] || [ "$outer" = "$1$mpirun" ] || continue
        command -v "$(program_of "$inner")" >/dev/null || {
            echo "# skipped: $outer x $inner: $inner is not installed" >&3
            continue
        }
        row "$1" "$inner" "$jobs" "$sentence" || { echo "FAILED: $1 x $inner"; bad=1; }
    done < <(table)
    [ $bad = 0 ]
}

@test "inside nothing" { rows none; }
@test "inside hvdrun" { rows hvdrun; }
@test "inside mpirun" { rows mpirun; }
@test "inside prterun" { rows prterun; }
@test "inside mpiexec" { rows mpiexec; }
@test "inside torchrun" { rows torchrun; }
@test "inside GNU parallel" { rows parallel; }
@test "inside srun with options of hvd" { rows srun; }
@test "inside a batch script" { rows sbatch; }
@test "inside salloc" { rows salloc; }
