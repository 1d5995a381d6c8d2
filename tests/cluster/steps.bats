#!/usr/bin/env bats
# steps.bats: each way in which Slurm starts ranks, by each MPI type: they find each other, and their places.
# shellcheck disable=SC2016 # what stands in single quotes is for the tasks to expand

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cluster_or_skip
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    hello=$HVD_BUILD/examples/hello
    end_jobs
}

no_jobs() {
    [ -z "$(login_in 10 squeue --noheader)" ]
}

# A srun that had to be killed leaves its job, and the next one would get other nodes.
end_jobs() {
    no_jobs || login_in 10 scancel --user="$(id -un)"
    await 30 no_jobs
}

has_mpi() {
    login_in 10 srun --mpi=list 2>&1 | grep -qw "$1"
}

need_mpi() {
    has_mpi "$1" || skip "Slurm has no mpi/$1 here"
}

# all_joined TEXT N [TIMES]: TEXT has the lines of all N ranks of a job of N, or of so many jobs
all_joined() {
    local sum=$(($2 * ($2 + 1) / 2))
    [ "$(grep -c "of $2: the sum is $sum\$" <<<"$1")" -eq $(($2 * ${3:-1})) ] || { echo "$1"; return 1; }
}

# Print, sorted, the numbers that ranks have by these variables.
places_of() {
    srun_in 20 "$@" sh -c 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK/$HOROVOD_CROSS_SIZE"' |
        sort
}

@test "six ranks on three nodes, by --mpi=pmix, pmi2 and none" {
    local mpi
    for mpi in pmix pmi2 none; do
        has_mpi $mpi || continue
        run srun_in 30 --hvd --mpi=$mpi -N3 -n6 "$hello"
        all_joined "$output" 6
        run srun_in 30 --hvd --mpi=$mpi --export=NONE -N3 -n6 \
            /usr/bin/env PATH="$PATH" HVD_MODULE_PATH="$HVD_MODULE_PATH" "$hello"
        all_joined "$output" 6
    done
}

@test "by pmi2 without the plug-in, and again after hvd_shutdown" {
    need_mpi pmi2
    plugstack_none
    run srun_in 30 --mpi=pmi2 -N3 -n6 --distribution=cyclic "$HVD_BUILD/tests/run/start" again
    echo "$output"
    [ "$status" -eq 0 ]
    run srun_in 30 --mpi=pmi2 -N3 -n6 "$HVD_BUILD/tests/run/wireup_probe"
    [ "$(grep -c 'size=6 local=[01]/2 .*provider=pmi$' <<<"$output")" -eq 6 ]
}

@test "ranks of --mpi=none meet at a port of the site, or at the user's" {
    plugstack ports=25001-25003
    run srun_in 20 --hvd --mpi=none --export=NONE -N2 -n4 /bin/sh -c 'echo "$MASTER_ADDR:$MASTER_PORT ${HVD_JOB_KEY:+key}"'
    [ "$(sort -u <<<"$output" | grep -cE '^n1:2500[123] key$')" -eq 1 ]
    run srun_in 30 --hvd --mpi=none -N2 -n4 "$hello"
    all_joined "$output" 4
    run login_in 30 env MASTER_PORT=24711 srun --hvd --mpi=none -N2 -n4 sh -c 'echo "$MASTER_PORT"; exec "$0"' "$hello"
    [ "$(grep -cx 24711 <<<"$output")" -eq 4 ]
    all_joined "$output" 4
}

@test "a rank that dies, by pmi2, is named" {
    need_mpi pmi2
    run srun_in 30 --hvd --mpi=pmi2 -N2 -n4 "$HVD_BUILD/tests/run/lost" small
    echo "$output"
    [ "$status" -ne 0 ]
    expect_text "$output" 'was lost: its process ended without hvd_shutdown'
}

@test "steps of several components are one job, by each MPI type" {
    local mpi
    for mpi in pmix pmi2 none; do
        has_mpi $mpi || continue
        end_jobs
        run srun_in 30 --hvd --mpi=$mpi -n2 "$hello" : --mpi=$mpi -n1 "$hello"
        all_joined "$output" 3
    done
    run srun_in 20 --hvd --mpi=none -N1 -n2 sh -c 'echo "$RANK/$WORLD_SIZE $NODE_RANK/$HOROVOD_CROSS_SIZE $MASTER_PORT"' : \
        --mpi=none -N2 -n2 sh -c 'echo "$RANK/$WORLD_SIZE $NODE_RANK/$HOROVOD_CROSS_SIZE $MASTER_PORT"'
    [ "$(grep / <<<"$output" | cut -d' ' -f1,2 | sort)" = "$(printf '%s\n' '0/4 0/3' '1/4 0/3' '2/4 1/3' '3/4 2/3')" ]
    [ "$(grep / <<<"$output" | cut -d' ' -f3 | sort -u | wc -l)" -eq 1 ]
}

@test "ranks of several components meet on the node of rank 0, whatever its name" {
    run srun_in 20 --hvd --mpi=none -w n3 -n1 sh -c 'echo "$RANK $MASTER_ADDR"' : --mpi=none -w n1 -n1 sh -c 'echo "$RANK $MASTER_ADDR"'
    [ "$(grep n3 <<<"$output" | sort)" = "$(printf '%s\n' '0 n3' '1 n3')" ] || { echo "$output"; return 1; }
}

@test "components of a job that are steps of their own are jobs of their own" {
    sbatch_in 30 --hvd -n2 : -n1 -o "$CLUSTER/het.out" --wrap "srun --het-group=0,1 $hello; echo ----; srun --het-group=1 $hello" ||
        skip 'this Slurm cannot give sbatch several components'
    output=$(<"$CLUSTER/het.out")
    all_joined "${output%%----*}" 3
    all_joined "${output##*----}" 1
}

@test "each task of an array is a job of its own" {
    sbatch_in 60 --hvd --array=1-2 -N2 -n2 -o "$CLUSTER/array.%a" --wrap "srun $hello"
    all_joined "$(cat "$CLUSTER/array.1" "$CLUSTER/array.2")" 2 2
}

@test "steps side by side, smaller than the job, do not meet, by pmix and none" {
    cat >"$CLUSTER/side.sh" <<END
#!/bin/sh
for step in 1 2 3; do
    srun --exact -N1 -n2 --mpi=\$1 "$hello" &
done
wait
srun -N2 -n3 --mpi=\$1 "$hello"
END
    local mpi
    for mpi in pmix none; do
        sbatch_in 60 --hvd -N3 -n6 -o "$CLUSTER/side.out" "$CLUSTER/side.sh" $mpi
        all_joined "$(<"$CLUSTER/side.out")" 2 3
        all_joined "$(<"$CLUSTER/side.out")" 3
    done
}

@test "more ranks than cores, on one node and on two" {
    run srun_in 30 --hvd -N1 --overcommit -n5 "$hello"
    all_joined "$output" 5
    run srun_in 30 --hvd -N2 --overcommit -n7 "$hello"
    all_joined "$output" 7
    [ "$(places_of --hvd -N2 --overcommit -n3)" = "$(printf '%s\n' '0/3 0/2 0/2' '1/3 1/2 0/2' '2/3 0/1 1/2')" ]
}

# As Slurm signals before the time limit (--signal) and at preemption: the batch script, which is not signalled, decides.
@test "all ranks stop at the same step when Slurm signals them, and the job is queued again" {
    local signal job
    for signal in USR1 TERM; do
        printf '%s\n' '#!/bin/sh' "srun --hvd-stop-signal=$signal $HVD_BUILD/tests/run/limits stop-later" 'status=$?' \
            'echo "srun ended with $status"' '[ "$status" -ne 85 ] || scontrol requeue "$SLURM_JOB_ID"' >"$CLUSTER/stop.sh"
        job=$(login_in 10 sbatch --parsable -N2 -n4 -o "$CLUSTER/$signal.out" "$CLUSTER/stop.sh")
        timeout 20 sh -c 'until grep -q "rank 3 goes on" "$1" 2>/dev/null; do sleep 0.05; done' sh "$CLUSTER/$signal.out"
        login_in 10 scancel --signal=$signal "$job"
        login_in 20 sh -c 'until scontrol show job "$1" | grep -q " Restarts=1 "; do sleep 0.05; done' sh "$job"
        login_in 10 scancel "$job"
        output=$(<"$CLUSTER/$signal.out")
        echo "$signal: $output"
        [ "$(grep -c 'stopped after step' <<<"$output")" -eq 4 ]
        [ "$(grep -o 'stopped after step .*' <<<"$output" | sort -u | wc -l)" -eq 1 ]
        expect_line "$output" 'srun ended with 85'
        grep -q '^hvd: rank [0-3] .* ended first: exited with status 85, .* after hvd_shutdown' <<<"$output"
    done
}

@test "commands in salloc find the job's options, in an interactive step as well" {
    plugstack lease=9s
    run salloc_in 20 -N2 -n2 --hvd-fusion=4M sh -c 'echo "here $HVD_CLI $HVD_SITE"; srun sh -c '\''echo "step $HVD_CLI"'\''
        srun --hvd=off sh -c '\''echo "off ${HVD_CLI-none}"'\'
    expect_line "$output" 'here fusion=4M lease=9s'
    [ "$(grep -cx 'step fusion=4M' <<<"$output")" -eq 2 ]
    [ "$(grep -cx 'off none' <<<"$output")" -eq 2 ]
    {
        cat "$CLUSTER/slurm.conf"
        echo 'LaunchParameters=use_interactive_step'
        echo "InteractiveStepOptions=\"--interactive --preserve-env $CLUSTER/shell.sh\""
    } >"$CLUSTER/interactive.conf"
    printf '%s\n' '#!/bin/sh' 'echo "inside $HVD_CLI $HVD_SITE"' 'srun sh -c '\''echo "step $HVD_CLI"'\' >"$CLUSTER/shell.sh"
    chmod 755 "$CLUSTER/shell.sh"
    run login_in 20 env SLURM_CONF="$CLUSTER/interactive.conf" salloc -Q -N2 -n2 --hvd-fusion=8M
    expect_line "$output" 'inside fusion=8M lease=9s'
    [ "$(grep -cx 'step fusion=8M' <<<"$output")" -eq 2 ]
}

@test "record=comment writes what the steps use into the job's comment, and keeps the user's" {
    plugstack record=comment
    local show='scontrol show job $SLURM_JOB_ID | grep Comment='
    run salloc_in 20 -n1 sh -c "srun true; $show; srun --hvd-fusion=8M true; $show; srun --hvd-fusion=2M true; $show"
    [ "$(grep -c 'Comment=hvd 0.*: fusion=8M' <<<"$output")" -eq 1 ]
    [ "$(grep -c 'Comment=hvd 0.*: fusion=2M' <<<"$output")" -eq 1 ]
    run salloc_in 20 -n1 --comment=mine sh -c "srun --hvd-fusion=8M true; $show"
    expect_text "$output" 'Comment=mine'
}

@test "salloc without options of hvd gives its command nothing" {
    run salloc_in 20 sh -c 'echo "${HVD_CLI-none} ${HVD_SITE-none}"'
    expect_line "$output" 'none none'
}
