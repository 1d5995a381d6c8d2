#!/usr/bin/env bats
# spank.bats: the plug-in on a real cluster.
# shellcheck disable=SC2016

bats_require_minimum_version 1.5.0
load helpers

need_pmix() {
    slurm_has_pmix || skip "Slurm has no mpi/pmix here"
}

# refused STATUS TEXT... -- COMMAND: the command exits with STATUS, prints each TEXT, and queues no job.
refused() {
    local expect_status=$1 texts=() text before
    shift
    while [ "$1" != -- ]; do
        texts+=("$1")
        shift
    done
    shift
    before=$(job_count)
    run login_in 10 "$@"
    [ "$status" -eq "$expect_status" ]
    for text in "${texts[@]}"; do
        expect_text "$output" "$text"
    done
    [ "$(job_count)" = "$before" ]
}

no_node_is_drained() {
    run login_in 10 sinfo -h -N -o %T
    expect_no_text "$output" drain
    expect_no_text "$output" down
}

### what users see

@test "srun, sbatch and salloc list every option" {
    for command in srun sbatch salloc; do
        run login_in 10 "$command" --help
        expect_text "$output" 'Options provided by plugins:'
        for option in fusion=SIZE backends=LIST start-timeout=TIME lease=TIME kill-wait=TIME log=LEVEL config=FILE; do
            expect_text "$output" "--hvd-$option"
        done
        expect_text "$output" 'default: 64M'
    done
}

@test "a bad value is refused before anything queues" {
    for command in 'srun true' 'sbatch --wrap=true' 'salloc true'; do
        # shellcheck disable=SC2086 # a command and its last argument
        set -- $command
        refused 255 '--hvd-fusion=64Q' 'has an unknown unit' 'such as 64M' -- "$1" --hvd-fusion=64Q "$2"
    done
    refused 255 '--hvd-fusion=-1' 'does not begin with a digit' 'expected bytes' -- srun --hvd-fusion=-1 true
    refused 255 '--hvd-fusion=99999999999T' 'is too large' 'between 0 and 16G' -- srun --hvd-fusion=99999999999T true
    refused 255 '--hvd-fusion=' 'is empty' -- srun --hvd-fusion= true
    refused 255 '--hvd-backends=udp' 'names something unknown' 'tcp' -- srun --hvd-backends=udp true
    refused 255 '--hvd-lease=5' 'has no unit' 'a time with' -- srun --hvd-lease=5 true
    refused 255 '--hvd-config=a;b' "';'" -- srun '--hvd-config=a;b' true
}

@test "a value that is too long is refused before it travels" {
    refused 255 'longer than 1023 bytes' -- srun "--hvd-config=$(printf 'x%.0s' {1..2000})" true
}

@test "a retired option is refused and says what to do" {
    refused 255 '--hvd-cycle-time' 'remove it' -- srun --hvd-cycle-time=1ms true
}

@test "an unknown option is refused, and says which was meant" {
    for command in 'srun true' 'sbatch --wrap=true' 'salloc true'; do
        # shellcheck disable=SC2086 # a command and its last argument
        set -- $command
        refused 255 "$1: error: hvd: --hvd-fuson: there is no such option; did you mean --hvd-fusion?" -- \
            "$1" --hvd-fuson=64M "$2"
    done
}

@test "a value that srun would take for the command is told" {
    run srun_in 10 --hvd-encrypt on -n1 true
    [ "$status" -ne 0 ]
    expect_line "$output" "srun: error: hvd: --hvd-encrypt on: 'on' is taken for the command; write --hvd-encrypt=on"
    run srun_in 10 --hvd-encrypt -n1 true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "a bad #SBATCH line is refused" {
    printf '#!/bin/sh\n#SBATCH --hvd-fusion=64Q\ntrue\n' >"$CLUSTER/bad.sh"
    refused 255 '--hvd-fusion=64Q' -- sbatch "$CLUSTER/bad.sh"
}

### how a value reaches the ranks

@test "a value given to srun is in all tasks" {
    run srun_in 20 -N3 -n6 --hvd-fusion=64M sh -c 'echo "$SLURM_PROCID $HVD_CLI"'
    for rank in 0 1 2 3 4 5; do
        expect_line "$output" "$rank fusion=64M"
    done
}

@test "the later of two values counts, the same twice is fine" {
    run srun_in 20 --hvd-fusion=16M --hvd-fusion=64M --hvd-log=info --hvd-log=info sh -c 'echo "$HVD_CLI"'
    expect_line "$output" 'fusion=64M;log=info'
}

@test "a value in #SBATCH reaches the steps inside, srun overrides it" {
    printf '%s\n' '#!/bin/sh' '#SBATCH --hvd-fusion=32M -N2' \
        'echo "script $HVD_CLI"' \
        'srun -n2 sh -c '\''echo "inner $HVD_CLI"'\' \
        'srun -n2 --hvd-fusion=16M sh -c '\''echo "override $HVD_CLI"'\' \
        'srun -n2 --hvd-log=info sh -c '\''echo "more $HVD_CLI"'\' >"$CLUSTER/job.sh"
    sbatch_in 30 -o "$CLUSTER/job.out" "$CLUSTER/job.sh"
    run cat "$CLUSTER/job.out"
    expect_line "$output" 'script fusion=32M'
    [ "$(grep -c '^inner fusion=32M$' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^override fusion=16M$' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^more fusion=32M;log=info$' <<<"$output")" -eq 2 ]
}

@test "sbatch --export=NONE hands it down as well" {
    printf '%s\n' '#!/bin/sh' "export PATH=$PATH SLURM_CONF=$CLUSTER/slurm.conf" 'srun /bin/sh -c '\''echo "inner $HVD_CLI"'\' >"$CLUSTER/job.sh"
    sbatch_in 30 --export=NONE --hvd-fusion=32M -o "$CLUSTER/job.out" "$CLUSTER/job.sh"
    run cat "$CLUSTER/job.out"
    expect_line "$output" 'inner fusion=32M'
}

@test "a value given to salloc reaches the steps inside, srun overrides it" {
    run salloc_in 20 -N2 --hvd-fusion=4M srun -n2 sh -c 'echo "$HVD_CLI"'
    [ "$(grep -c '^fusion=4M$' <<<"$output")" -eq 2 ]
    run salloc_in 20 -N2 --hvd-fusion=4M srun -n2 --hvd-fusion=2M sh -c 'echo "$HVD_CLI"'
    [ "$(grep -c '^fusion=2M$' <<<"$output")" -eq 2 ]
}

@test "an unprivileged user's task gets it" {
    command -v setpriv >/dev/null || skip 'it needs setpriv'
    run login_in 20 setpriv --reuid=65534 --regid=65534 --clear-groups \
        srun -D / -N3 --hvd-fusion=64M sh -c 'echo "$(id -u) $HVD_CLI"'
    [ "$(grep -c '^65534 fusion=64M$' <<<"$output")" -eq 3 ]
}

@test "so do those of a user with 3000 groups, one of which has 20000 members, and the one that fails is named" {
    command -v setpriv >/dev/null || skip 'it needs setpriv'
    local file where many=(setpriv --reuid=4000 --regid=4000 --init-groups srun -D / -N2 -n2)
    { cat /etc/passwd && echo 'many:x:4000:4000::/:/bin/sh'; } >"$CLUSTER/passwd"
    { cat /etc/group && echo 'many:x:4000:' && seq 10001 13000 | sed 's/.*/g&:x:&:many/'
        echo "crowd:x:5000:many$(printf ',u%d' {1..20000})"; } >"$CLUSTER/group"
    for file in passwd group; do
        for where in login_in\ 5 node_in\ 5\ n1 node_in\ 5\ n2; do
            $where mount --bind "$CLUSTER/$file" /etc/$file
        done
    done
    run login_in 30 "${many[@]}" --hvd-fusion=64M sh -c 'echo "$(id -G | wc -w) $HVD_CLI"'
    [ "$(grep -c '^3002 fusion=64M$' <<<"$output")" -eq 2 ]
    run login_in 30 "${many[@]}" --hvd --mpi=none "$HVD_BUILD/tests/run/crash" exit 3
    for where in login_in\ 5 node_in\ 5\ n1 node_in\ 5\ n2; do
        $where umount /etc/passwd /etc/group
    done
    echo "$output"
    [[ ${lines[-1]} == 'hvd: rank 1 (n2, pid '*') failed first: exited with status 3, '* ]]
}

@test "ranks that mpirun starts from a batch script agree" {
    command -v mpirun >/dev/null || skip 'it needs mpirun'
    plugstack lease=9s
    printf '%s\n' '#!/bin/sh' '#SBATCH -N2 -n2 --hvd-fusion=2M' \
        'mpirun --allow-run-as-root -n 2 sh -c '\''echo "$(hostname) $HVD_CLI $HVD_SITE"'\' >"$CLUSTER/job.sh"
    sbatch_in 40 -o "$CLUSTER/job.out" "$CLUSTER/job.sh"
    run cat "$CLUSTER/job.out"
    expect_line "$output" 'n1 fusion=2M lease=9s'
    expect_line "$output" 'n2 fusion=2M lease=9s'
}

### what the administrator decides

@test "options in plugstack.conf are the site's" {
    plugstack fusion=8M lease=9s
    run srun_in 20 -N3 sh -c 'echo "$HVD_SITE/$HVD_CLI"'
    [ "$(grep -cxF 'fusion=8M;lease=9s/' <<<"$output")" -eq 3 ]
    run srun_in 20 --hvd-fusion=1M sh -c 'echo "$HVD_SITE/$HVD_CLI"'
    expect_line "$output" 'fusion=8M;lease=9s/fusion=1M'
}

@test "what plugstack.conf forces goes before what users set, and rank 0 says so" {
    plugstack force=encrypt=on force=fusion=8M
    HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs run srun_in 30 --hvd-encrypt=off -N2 -n2 "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'hvd-encrypt: off is ignored: the administrator of this cluster has set encrypt=on' <<<"$output")" -eq 1 ]
    run srun_in 20 --hvd-encrypt=off "$HVD_BUILD/bin/hvdinfo"
    grep -E '^ *encrypt +on +forced by the site' <<<"$output"
}

@test "a file switches hvd off for new steps, where srun runs, and says so to those who use it" {
    plugstack off="$CLUSTER/off" fusion=8M steps=all
    echo why >"$CLUSTER/off"
    run srun_in 20 --hvd-lease=9s -N2 -n2 sh -c 'echo "${HVD_SITE-none} ${HVD_CLI-none} ${SLURM_HVD_OFF-none} ${RANK-none}"'
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cx 'none none none none' <<<"$output")" -eq 2 ]
    expect_text "$output" "srun: hvd: the administrator has switched hvd off on this cluster ($CLUSTER/off)"
    run srun_in 20 sh -c 'echo "${HVD_SITE-none}"'
    [ "$output" = none ]
    run salloc_in 20 --hvd-lease=9s sh -c 'echo "${HVD_SITE-none} ${HVD_CLI-none}"'
    expect_line "$output" 'none none'
    rm "$CLUSTER/off"
    run srun_in 20 sh -c 'echo "$HVD_SITE"'
    [ "$output" = fusion=8M ]
}

@test "a slip in plugstack.conf is told to the administrator and harms nobody" {
    plugstack bogus=1 fusion=64Q mpi=zap lease=9s
    run srun_in 20 -N3 sh -c 'echo "$HVD_SITE"'
    [ "$status" -eq 0 ]
    [ "$(grep -cx 'lease=9s' <<<"$output")" -eq 3 ]
    expect_no_text "$output" bogus
    run cat "$CLUSTER/log/slurmd-n1"
    expect_text "$output" 'hvd: plugstack.conf: bogus=1: no such key'
    expect_text "$output" 'hvd: plugstack.conf: fusion=64Q: the value has an unknown unit'
    expect_text "$output" 'hvd: plugstack.conf: mpi=zap: expected keep or pmix'
    run srun_in 20 -v true
    expect_text "$output" 'hvd: plugstack.conf: bogus=1'
    run login_in 10 sbatch -v -o /dev/null --wrap=true
    [ "$status" -eq 0 ]
    expect_text "$output" 'hvd: plugstack.conf: bogus=1'
    no_node_is_drained
}

### PMIx

@test "a step with an option gets PMIx" {
    need_pmix
    run srun_in 20 -N3 -n6 --hvd-fusion=64M env
    [ "$(grep -c '^PMIX_NAMESPACE=' <<<"$output")" -eq 6 ]
    run salloc_in 20 --hvd-fusion=64M srun env
    expect_text "$output" PMIX_NAMESPACE=
}

@test "--hvd alone uses hvd, and so does a variable or the site" {
    need_pmix
    run srun_in 20 -N3 -n6 --hvd env
    [ "$(grep -c '^PMIX_NAMESPACE=' <<<"$output")" -eq 6 ]
    [ "$(grep '^RANK=' <<<"$output" | sort)" = "$(printf 'RANK=%d\n' 0 1 2 3 4 5)" ]
    [ "$(grep -c '^WORLD_SIZE=6$' <<<"$output")" -eq 6 ]
    [ "$(grep -c '^LOCAL_RANK=1$' <<<"$output")" -eq 3 ]
    [ "$(grep -c '^HOROVOD_CROSS_SIZE=3$' <<<"$output")" -eq 6 ]
    [ "$(grep -c '^MASTER_ADDR=n1$' <<<"$output")" -eq 6 ]
    [ "$(grep '^MASTER_PORT=' <<<"$output" | sort -u | wc -l)" -eq 1 ]
    expect_no_text "$output" HVD_CLI
    run srun_in 20 -n1 --hvd=verbose env
    expect_line "$output" HVD_CLI=bind=verbose
    run srun_in 20 -n1 --hvd=loud true
    [ "$status" -ne 0 ]
    expect_text "$output" '--hvd=loud: expected on, off or verbose'
    run login_in 20 env HVD_LOG=warn srun -n2 env
    expect_text "$output" PMIX_NAMESPACE=
    expect_line "$output" RANK=1
    run login_in 20 env HVD_LOG=warn srun -n2 --hvd=off env
    expect_no_text "$output" PMIX_NAMESPACE=
    expect_no_text "$output" MASTER_ADDR
    plugstack steps=all
    run srun_in 20 -n2 env
    expect_text "$output" PMIX_NAMESPACE=
    expect_line "$output" RANK=1
    run srun_in 20 -n2 --hvd=off --hvd-log=warn env
    expect_no_text "$output" PMIX_NAMESPACE=
    expect_no_text "$output" HVD_CLI
}

@test "--hvd of a batch script reaches the steps inside, and off is nearer" {
    need_pmix
    sbatch_in 30 -N2 -n2 --hvd -o "$CLUSTER/job.out" --wrap 'srun env; echo ----; srun --hvd=off env'
    output=$(<"$CLUSTER/job.out")
    expect_text "${output%%----*}" PMIX_NAMESPACE=
    expect_line "${output%%----*}" RANK=1
    expect_no_text "${output##*----}" PMIX_NAMESPACE=
}

@test "what the user or the site says of MPI goes before" {
    need_pmix
    run srun_in 20 --mpi=none --hvd-fusion=64M env
    expect_no_text "$output" PMIX_NAMESPACE=
    run login_in 20 env SLURM_MPI_TYPE=none srun --hvd-fusion=64M env
    expect_no_text "$output" PMIX_NAMESPACE=
    plugstack mpi=keep
    run srun_in 20 --hvd-fusion=64M env
    expect_no_text "$output" PMIX_NAMESPACE=
    expect_line "$output" HVD_CLI=fusion=64M
    plugstack mpi=pmix
    run srun_in 20 --hvd-fusion=64M env
    expect_text "$output" PMIX_NAMESPACE=
}

@test "options of the command itself are not srun's" {
    run srun_in 20 -n1 sh -c env ./train --hvd-fusion=64M
    expect_no_text "$output" PMIX_NAMESPACE=
    expect_no_text "$output" HVD_CLI
}

### steps without options of hvd do not change

# Print the environment of a task, without the variables that differ from job to job.
environment_of_step() {
    srun_in 20 -N1 -n1 -w n1 env | sed -E 's/^(SLURM_(JOB_?ID|TASK_PID|SRUN_COMM_PORT|STEP_LAUNCHER_PORT))=.*/\1/' |
        sort
}

@test "a plain step has the environment that it has without the plug-in" {
    with=$(environment_of_step)
    plugstack_none
    without=$(environment_of_step)
    diff <(echo "$without") <(echo "$with")
    expect_text "$with" SLURM_PROCID=0
    expect_no_text "$with" HVD_CLI
    expect_no_text "$with" HVD_SITE
    expect_no_text "$with" PMIX_
}

@test "site options add HVD_SITE to a plain step, and nothing else" {
    plugstack fusion=8M
    with=$(environment_of_step)
    plugstack_none
    without=$(environment_of_step)
    [ "$(diff <(echo "$without") <(echo "$with") | grep '^[<>]')" = '> HVD_SITE=fusion=8M' ]
}

# Print the files that slurmstepd has mapped.
maps_of_step() {
    srun_in 20 -N1 -n1 "$@" sh -c 'grep -q slurmstepd /proc/$PPID/comm && cat /proc/$PPID/maps' |
        grep -o '/[^ ]*$' | sort -u
}

# The libraries that the plug-in loads for placement: hwloc and those that it needs.
without_hwloc() {
    grep -vE '/lib(hwloc|udev|pciaccess|xml2|m)\.so\.[0-9.]+$'
}

@test "slurmstepd maps the plug-in, hwloc and nothing more" {
    with=$(maps_of_step | without_hwloc)
    plugstack_none
    without=$(maps_of_step | without_hwloc)
    expect_text "$without" slurmstepd
    [ "$(diff <(echo "$without") <(echo "$with") | grep '^[<>]')" = "> $CLUSTER/spank_hvd.so" ]
}

@test "slurmstepd maps what mpi/pmix brings, the plug-in, hwloc and nothing more" {
    need_pmix
    with=$(maps_of_step --hvd-fusion=64M | sed 's/_[0-9]*$//' | without_hwloc)
    plugstack_none
    without=$(maps_of_step --mpi=pmix | sed 's/_[0-9]*$//' | without_hwloc)
    expect_text "$without" libpmix
    diff <(echo "$without" | grep '\.so') <(echo "$with" | grep '\.so' | grep -v spank_hvd)
}

### when something dies

@test "a task killed by a signal is named" {
    run srun_in 20 -N3 -n6 --mpi=none --hvd-log=warn sh -c 'test $SLURM_PROCID != 3 || kill -9 $$'
    [ "$status" -eq 137 ]
    [[ ${lines[-1]} == 'hvd: rank 3 (n2, pid '*') failed first: killed by SIGKILL, '*' ms after start'* ]]
}

@test "the rank is that of the whole step where it has several components" {
    run srun_in 20 -n2 --mpi=none --hvd-log=warn true : -n2 --mpi=none sh -c 'test $SLURM_PROCID != 3 || kill -11 $$'
    [[ ${lines[-1]} == 'hvd: rank 3 ('*') failed first: killed by SIGSEGV, '* ]]
}

@test "nothing is said of other steps" {
    plugstack fusion=8M
    run srun_in 20 -N3 -n6 sh -c 'test $SLURM_PROCID != 3 || kill -9 $$'
    [ "$status" -eq 137 ]
    expect_no_text "$output" 'hvd:'
}

@test "a forged variable fails its own step, with a sentence, and drains no node" {
    run login_in 20 env _SLURM_SPANK_OPTION_hvd_hvd_fusion=64Q srun -N3 true
    [ "$status" -ne 0 ]
    expect_text "$output" '--hvd-fusion=64Q: the value has an unknown unit'
    _SLURM_SPANK_OPTION_hvd_hvd_fusion=64Q sbatch_in 20 -o "$CLUSTER/job.out" --wrap='echo ran'
    expect_no_text "$(cat "$CLUSTER/job.out")" ran
    expect_text "$(cat "$CLUSTER/job.out")" '--hvd-fusion=64Q: the value has an unknown unit'
    no_node_is_drained
    srun_in 20 -N3 true
}

@test "a value that was inherited is checked like one that was typed" {
    refused 1 '--hvd-fusion=64Q' SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd_fusion -- \
        env SLURM_SPANK__SLURM_SPANK_OPTION_hvd_hvd_fusion=64Q srun true
}
