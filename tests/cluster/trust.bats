#!/usr/bin/env bats
# trust.bats: another user of a node, who knows a step's name in PMIx, which anybody can guess, tries to read the job's key,
# to join the job, to take a rank's place and to end the step. The step goes on and is right.
# shellcheck disable=SC2016 # what stands in single quotes is for the tasks to expand

bats_require_minimum_version 1.5.0
load helpers

setup_file() {
    cluster_start
    [ -n "$CLUSTER_WHY_NOT" ] ||
        "$HVD_BUILD/libtool" --mode=install install -m 755 "$HVD_BUILD/tests/run/stranger" "$CLUSTER/stranger" >/dev/null 2>&1 || true
}

setup() {
    cluster_or_skip
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs
    hello=$HVD_BUILD/examples/hello
    job=$CLUSTER/job.$BATS_TEST_NUMBER
    mkdir -p "$job"
}

# start_step ARGS: start two ranks on n1 and wait until rank 0 is in hvd_init; rank 1 waits for the file go.
start_step() {
    [ -e "$CLUSTER/stranger" ] || skip 'tests/run/stranger was not built: configure found no PMIx'
    start_slowly
    srun_in 60 -N1 -n2 -w n1 "$@" sh -c '
        env -0 >"$1/env.$SLURM_PROCID"; echo $$ >"$1/pid.part"; [ $SLURM_PROCID = 1 ] || mv "$1/pid.part" "$1/pid"
        [ $SLURM_PROCID = 0 ] || until [ -e "$1/go" ]; do sleep 0.02; done
        exec "$0"' "$hello" "$job" >"$job/out" 2>&1 3>&- &
    step=$!
    await 30 rank_0_listens || { cat "$job/out"; return 1; }
}

rank_0_listens() {
    [ -e "$job/pid" ] && [ -e "$job/env.1" ] && [ -n "$(port_of_rank_0)" ]
}

port_of_rank_0() {
    node_in 10 n1 ss -Hltnp | grep "pid=$(cat "$job/pid")," | awk '{ sub(/.*:/, "", $4); print $4; exit }'
}

end_step() {
    touch "$job/go"
    wait "$step" || { cat "$job/out"; return 1; }
    cat "$job/out"
    [ "$(grep -c 'of 2: the sum is 3' "$job/out")" -eq 2 ]
}

# nobody_in NAME=VALUE ... COMMAND ...: run a command on n1 as user nobody, who knows what leads to the step's PMIx.
nobody_in() {
    local found=()
    while IFS= read -r -d '' entry; do
        case $entry in PMIX_*) found+=("$entry") ;; esac
    done <"$job/env.1"
    node_in "${patience:-60}" n1 setpriv --reuid=65534 --regid=65534 --clear-groups env -i "${found[@]}" PMIX_MCA_gds=hash "CLAIM_UID=$(id -u)" "$@" 3>&-
}

# Read as nobody what the step's PMIx carries in place of the key. The reader stays, as a client that leaves ends the step.
steal() {
    nobody_in PMIX_SECURITY_MODE=native PMIX_MCA_psec=native "$CLUSTER/stranger" read >"$job/stolen" &
    echo $! >"$job/thief"
    await 30 grep -qs . "$job/stolen"
    sed 's/.*key: //' "$job/stolen"
}

secret() {
    tr '\0' '\n' <"$job/env.0" | sed -n 's/^HVD_JOB_KEY=//p'
}

@test "the plug-in gives each step a secret that no other user and no file of Slurm has" {
    local key port
    start_step --hvd-backends=tcp
    [[ $(secret) =~ ^slurm:[0-9a-f]{64}$ ]]
    run -1 grep -rlF "$(secret)" "$CLUSTER/state" "$CLUSTER/spool" "$CLUSTER/log"
    key=$(steal)
    [ ${#key} -eq 64 ]
    port=$(port_of_rank_0)
    nobody_in PMIX_NAMESPACE=x "$CLUSTER/stranger" join "$key" "$port" 0 >"$job/join" &
    local join=$!
    nobody_in PMIX_NAMESPACE=x "$CLUSTER/stranger" attach "$key" 0 >"$job/attach" &
    local attach=$!
    await 30 grep -qs . "$job/join"
    await 30 grep -qs . "$job/attach"
    end_step
    wait $join
    kill $attach "$(cat "$job/thief")" || true
    cat "$job/join" "$job/attach"
    grep -q '^refused: ' "$job/join"
    [ "$(cat "$job/attach")" = looks ]
}

@test "without the plug-in munge keeps the key" {
    local key
    plugstack_none
    start_step --mpi=pmix
    [ -z "$(secret)" ]
    key=$(steal)
    [ ${#key} -gt 64 ] # a credential
    run nobody_in "$CLUSTER/stranger" join "$key" "$(port_of_rank_0)" 0
    echo "$output"
    expect_text "$output" 'no key: the key of the job, which rank 0 has put into a credential of munge, cannot be used'
    expect_text "$output" 'Unauthorized credential'
    end_step
    kill "$(cat "$job/thief")" || true
    run srun_in 60 -N3 -n6 --mpi=pmix "$hello"
    echo "$output"
    [ "$(grep -c 'of 6: the sum is 21' <<<"$output")" -eq 6 ]
}

# Who reads the network when Slurm launches the step has seen the secret, and what PMIx carries.
@test "encrypted, the secret alone does not give the key" {
    local key
    start_step --hvd-encrypt=on --hvd-backends=tcp
    [[ $(secret) =~ ^slurm:[0-9a-f]{64}$ ]]
    key=$(steal)
    [ ${#key} -gt 64 ] # a credential
    run nobody_in HVD_ENCRYPT=on "HVD_JOB_KEY=$(secret)" "$CLUSTER/stranger" join "$key" "$(port_of_rank_0)" 0
    echo "$output"
    expect_text "$output" 'no key: the key of the job, which rank 0 has put into a credential of munge, cannot be used'
    expect_text "$output" 'Unauthorized credential'
    end_step
    kill "$(cat "$job/thief")" || true
    run srun_in 60 --mpi=none -N3 -n6 --hvd-encrypt=on "$hello"
    echo "$output"
    [ "$(grep -c 'of 6: the sum is 21' <<<"$output")" -eq 6 ]
}

@test "where munge is missing, a step that encrypts says that its secret was sent over the network" {
    # libmunge looks for the socket there; each task has mounts of its own
    local hide='mount -t tmpfs none /run/munge && exec "$0"' output
    start_slowly
    run srun_in 60 -N2 -n2 --hvd-encrypt=on unshare --mount sh -c "$hide" "$hello"
    echo "$output"
    [ "$(grep -c 'of 2: the sum is 3' <<<"$output")" -eq 2 ]
    [ "$(grep -c 'munge does not work here, so who read the network' <<<"$output")" -eq 1 ]
    run srun_in 60 -N2 -n2 --hvd-encrypt=on --hvd-start-timeout=30s unshare --mount sh -c "[ \$SLURM_PROCID = 0 ] && exec \"\$0\"; $hide" "$hello"
    echo "$output"
    [ "$status" -ne 0 ]
    expect_text "$output" 'rank 1 (n2) has HVD_JOB_KEY, rank 0 (n1) has munge besides HVD_JOB_KEY (--hvd-encrypt=on: '
}

# The ranks have left PMIx when they train. PMIx 4.2 may answer nobody any more after it has refused one, so that another
# user can still keep a step from starting: hvd-spank(8) warns of that.
@test "where Slurm's PMIx asks for munge, another user can neither read from it nor end a step that runs" {
    [ -e "$CLUSTER/stranger" ] || skip 'tests/run/stranger was not built: configure found no PMIx'
    echo 'PMIxEnv=PMIX_MCA_psec=munge' >"$CLUSTER/mpi.conf"
    login_in 10 scontrol reconfigure
    srun_in 90 -N1 -n2 -w n1 --hvd-fusion=1M sh -c 'env -0 >"$1/env.$SLURM_PROCID"; exec "$0" until "$1/go"' \
        "$HVD_BUILD/tests/run/plain_tensor" "$job" >"$job/out" 2>&1 3>&- &
    step=$!
    await 30 grep -qs runs "$job/out" || { cat "$job/out"; return 1; }
    grep -qzx 'PMIX_SECURITY_MODE=munge' "$job/env.1"
    run nobody_in PMIX_SECURITY_MODE=native PMIX_MCA_psec=native "$CLUSTER/stranger" abort # it may say that it knows no munge
    expect_text "$output" 'not let in: '
    patience=5
    for verb in read abort; do
        run nobody_in "$CLUSTER/stranger" $verb # silent where PMIx no longer answers
        expect_no_text "$output" 'let in, '
    done
    touch "$job/go"
    wait "$step" || { cat "$job/out"; return 1; }
    rm "$CLUSTER/mpi.conf"
    login_in 10 scontrol reconfigure
}

@test "the secret reaches tasks with --export=NONE, and the user's own stays" {
    local print='test -z "$SLURM_HVD_JOB_KEY" && echo "it is $HVD_JOB_KEY"'
    run srun_in 30 -n1 --export=NONE --hvd-fusion=1M /bin/sh -c "$print"
    [[ $output =~ it\ is\ slurm:[0-9a-f]{64} ]]
    HVD_JOB_KEY=a-secret-of-the-user run srun_in 30 -n1 --hvd-fusion=1M sh -c "$print"
    expect_line "$output" 'it is a-secret-of-the-user'
    run srun_in 30 -n1 sh -c "$print"
    expect_line "$output" 'it is '
    HVD_JOB_KEY=short run srun_in 30 -n2 --hvd-fusion=1M "$hello"
    expect_text "$output" 'HVD_JOB_KEY is too short'
}

@test "encrypted, jobs on several nodes give the same" {
    local case
    export COLLECTIVES_DIR=$BATS_TEST_TMPDIR
    chmod 777 "$BATS_TEST_TMPDIR"
    for case in allreduce order broadcast; do
        rm -f "$BATS_TEST_TMPDIR"/[0-9]*
        run srun_in 90 -N3 -n6 --hvd-encrypt=on "$HVD_BUILD/tests/run/collectives" $case
        echo "$output"
        [ "$status" -eq 0 ]
    done
    run srun_in 60 -N2 -n4 --hvd-encrypt=on --hvd-log=debug "$hello"
    echo "$output"
    [ "$(grep -c 'of 4: the sum is 10' <<<"$output")" -eq 4 ]
    expect_no_text "$output" 'over mpi'
}

@test "the ranks of a mpirun in a job of the plug-in all lack the step's secret" {
    command -v mpirun >/dev/null || skip 'it needs mpirun'
    run salloc_in 60 -N2 -n4 --hvd-fusion=1M mpirun --allow-run-as-root -n 4 "$hello"
    echo "$output"
    [ "$(grep -c 'of 4: the sum is 10' <<<"$output")" -eq 4 ]
}
