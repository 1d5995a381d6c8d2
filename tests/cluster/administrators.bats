#!/usr/bin/env bats
# administrators.bats: the commands that docs/administrators.md prints, as it prints them, on a cluster.
# shellcheck disable=SC2016,SC2030,SC2031 # what stands in single quotes is the page's; run sets output in the test that reads it

bats_require_minimum_version 1.5.0
load helpers

setup() {
    cluster_or_skip
    export HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs PATH=$HVD_BUILD/bin:$PATH
    start_slowly
    page=$HVD_SOURCE/docs/administrators.md
}

# printed START: the line of code of the page that begins so
printed() {
    sed -nE 's/^ {4,}(\$ )?//p' "$page" | grep -m1 "^$1" || { echo "the page has no line that begins: $1" >&2; return 1; }
}

# as_printed START: run that command on the login node
as_printed() {
    run login_in 60 bash -c "$(printed "$1")"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "the first try prints what the page shows" {
    local line
    as_printed 'srun --hvd-fusion=64M'
    [ "$output" = "$(grep -A1 'srun --hvd-fusion=64M' "$page" | sed -n '2s/^ *//p')" ]
    as_printed 'srun --hvd -N2 .* hvdinfo doctor'
    while read -r line; do
        grep -qE "^$line\$" <<<"$output" || { echo "not printed: $line"; return 1; }
    done < <(sed -nE "s|/usr/.*/spank_hvd.so|$CLUSTER/spank_hvd.so|; s/hvd [0-9.]+/hvd [0-9.]+/; s/^ +(ok .*)/\1/p" "$page")
}

@test "the health check drains a node whose doctor finds a failure, and only such a node" {
    sed -n '/^    #!\/bin\/sh/,/^$/s/^    //p' "$page" >"$CLUSTER/health"
    grep -q 'hvdinfo doctor --node' "$CLUSTER/health"
    node_in 60 n2 sh "$CLUSTER/health"
    [ "$(login_in 10 sinfo -h -R)" = '' ]
    echo "optional $CLUSTER/nowhere/spank_hvd.so" >"$CLUSTER/plugstack.conf"
    node_in 60 n2 sh "$CLUSTER/health"
    run login_in 10 sinfo -h -R -o '%N %E'
    echo "$output"
    [[ $output == 'n2 hvd: fail plug-in: plugstack.conf names '* ]]
    plugstack
    login_in 10 scontrol update NodeName=n2 State=RESUME
}

@test "every argument that the page names is understood" {
    local arguments=()
    mapfile -t arguments < <(sed -nE 's/^\| (`[^|]*=[^|]*) \|.*/\1/p' "$page" | grep -oE '`[a-z-]+=[^`[:blank:]]+`' | tr -d '`')
    [ ${#arguments[@]} -ge 12 ]
    plugstack "${arguments[@]}" ports=25000-25999
    run srun_in 30 -v -N1 sh -c 'echo "$MASTER_PORT"'
    echo "$output"
    expect_no_text "$output" 'is ignored'
    grep -qE '^25[0-9]{3}$' <<<"$output"
    plugstack "${arguments[@]}" nonsense
    run srun_in 30 -v -N1 true
    expect_text "$output" 'hvd: plugstack.conf: nonsense'
}

@test "hvdinfo in place of the program prints the options in force, and without the plug-in they are refused" {
    as_printed 'srun --hvd-fusion=64M hvdinfo'
    grep -E '^ *fusion +64M +command line$' <<<"$output"
    plugstack_none
    run login_in 30 bash -c "$(printed 'srun --hvd-fusion=64M hvdinfo')"
    echo "$output"
    [ "$status" -ne 0 ]
    expect_text "$output" "$(sed -nE 's/^\| `(unrecognized option [^`]*)`.*/\1/p' "$page")"
}

@test "clush of the doctor finds the node that the roll-out has missed" {
    clush() {
        local node
        for node in n1 n2 n3; do
            node_in 30 $node "${@:2}" | sed "s/^/$node: /"
        done
    }
    local find
    find=$(grep -oE '`clush -a [^`]*`' "$page" | tr -d '`')
    [ -n "$find" ]
    run eval "$find"
    [ "$output" = '' ]
    echo "optional $CLUSTER/nowhere/spank_hvd.so" >"$CLUSTER/missed"
    node_in 5 n2 mount --bind "$CLUSTER/missed" "$CLUSTER/plugstack.conf"
    run eval "$find"
    node_in 5 n2 umount "$CLUSTER/plugstack.conf"
    echo "$output"
    [[ ${#lines[@]} -eq 1 && ${lines[0]} == 'n2: fail plug-in: '* ]]
}

# checked: each node has run a whole health check that began after this call
checked() {
    for _ in 1 2; do
        rm -f "$CLUSTER"/checked.*
        await 30 test -e "$CLUSTER/checked.n1" -a -e "$CLUSTER/checked.n2" -a -e "$CLUSTER/checked.n3"
    done
}

drained() {
    [[ "$(login_in 10 sinfo -h -R -o '%N %E')" == 'n[1-3] hvd: fail plug-in: plugstack.conf names '* ]]
}

# health_program PATH: what slurmd starts: the page's script with that PATH added, whose file is one for each node
health_program() {
    printf '%s\n' '#!/bin/sh' "export SLURM_CONF=$CLUSTER/slurm.conf HVD_MODULE_PATH=$HVD_MODULE_PATH PATH=\$PATH:$1" \
        "sh $CLUSTER/health" "touch $CLUSTER/checked.\$SLURMD_NODENAME" >"$CLUSTER/program.new"
    chmod 755 "$CLUSTER/program.new"
    mv "$CLUSTER/program.new" "$CLUSTER/program"
}

@test "slurmd runs the health check: a node without hvdinfo stays in use, one that fails is drained" {
    sed -n '/^    #!\/bin\/sh/,/^$/s/^    //p' "$page" | sed "s|/run/hvd-doctor|$CLUSTER/doctor.\$SLURMD_NODENAME|" >"$CLUSTER/health"
    health_program /nowhere
    printed HealthCheckProgram= | sed "s|=.*|=$CLUSTER/program|" >>"$CLUSTER/slurm.conf"
    printed HealthCheckInterval= | sed 's/=.*/=1/' >>"$CLUSTER/slurm.conf"
    login_in 10 scontrol reconfigure
    checked
    [ "$(login_in 10 sinfo -h -R)" = '' ]
    health_program "$HVD_BUILD/bin"
    checked
    [ "$(login_in 10 sinfo -h -R)" = '' ]
    echo "optional $CLUSTER/nowhere/spank_hvd.so" >"$CLUSTER/plugstack.conf"
    await 30 drained
    plugstack
    checked
    sed -i '/^HealthCheck/d' "$CLUSTER/slurm.conf"
    login_in 10 scontrol reconfigure
    login_in 10 scontrol update 'NodeName=n[1-3]' State=RESUME
}

@test "the file of off= switches hvd off, and its removal on" {
    local switch
    switch=$(printed 'mkdir -p /etc/hvd')
    plugstack off="$CLUSTER/etc/hvd/off"
    login_in 10 sh -c "${switch//\/etc/$CLUSTER\/etc}"
    run srun_in 30 --hvd-cache=77 -N1 sh -c 'echo "list=$HVD_CLI"'
    echo "$output"
    expect_text "$output" 'hvd: the administrator has switched hvd off on this cluster'
    expect_line "$output" list=
    rm -r "$CLUSTER/etc/hvd"
    run srun_in 30 --hvd-cache=77 -N1 sh -c 'echo "list=$HVD_CLI"'
    [ "$output" = list=cache=77 ]
}

@test "squeue tells who used hvd, and hvdinfo ps what a user's job does" {
    local job
    plugstack record=comment
    srun_in 30 --hvd-cache=77 -N1 true
    as_printed 'squeue --states=all'
    grep -E '^[0-9]+ root hvd [0-9.]+: cache=77$' <<<"$output"
    job=$(login_in 10 sbatch --parsable -N1 -o /dev/null --wrap "srun --hvd $HVD_BUILD/tests/run/stalled allreduce 0 60000 1")
    asked() { node_in 10 n1 sh -c "$(printed 'hvdinfo ps --node' | sed "s/4711/$job/")" >"$CLUSTER/asked" 2>&1; }
    await 30 asked
    cat "$CLUSTER/asked"
    login_in 10 scancel "$job"
    expect_text "$(cat "$CLUSTER/asked")" "job $job.0: "
}

# start_accounting: the cluster gets a database, and slurmdbd; they end with it
start_accounting() {
    mkdir "$CLUSTER/database" && chown mysql "$CLUSTER/database"
    printf '%s\n' AuthType=auth/munge DbdHost=login SlurmUser=root "LogFile=$CLUSTER/log/slurmdbd" "PidFile=$CLUSTER/slurmdbd.pid" \
        StorageType=accounting_storage/mysql StorageHost=localhost StorageUser=root >"$CLUSTER/slurmdbd.conf"
    chmod 600 "$CLUSTER/slurmdbd.conf"
    sed -i 's/^AccountingStorageType=.*/AccountingStorageType=accounting_storage\/slurmdbd/' "$CLUSTER/slurm.conf"
    printf '%s\n' AccountingStorageHost=login AccountingStoreFlags=job_comment >>"$CLUSTER/slurm.conf"
    cat >"$CLUSTER/accounting" <<'END'
set -e
cd "$1"
mkdir -p /run/mysqld && chown mysql /run/mysqld
mysql_install_db --no-defaults --user=mysql --datadir="$1/database" --auth-root-authentication-method=normal
setsid mariadbd --no-defaults --user=mysql --datadir="$1/database" --socket=/run/mysqld/mysqld.sock --skip-networking &
until mysqladmin --socket=/run/mysqld/mysqld.sock ping; do sleep 0.1; done
mysql --socket=/run/mysqld/mysqld.sock --execute='create database slurm_acct_db'
setsid slurmdbd -D &
until sacctmgr --immediate add cluster hvdtest; do sleep 0.1; done
sacctmgr --immediate add account users
sacctmgr --immediate add user root account=users
kill "$(cat slurmctld.pid)"
until ! scontrol ping; do sleep 0.1; done
setsid slurmctld -D -f slurm.conf &
until scontrol ping; do sleep 0.1; done
until [ "$(sinfo -h -t idle -o %D)" = 3 ]; do sleep 0.1; done
END
    login_in 60 bash "$CLUSTER/accounting" "$CLUSTER" >"$CLUSTER/log/accounting" 2>&1 </dev/null 3>&- || {
        tail -n 20 "$CLUSTER/log/accounting"
        return 1
    }
}

sacct_names() {
    as_printed 'sacct --allusers' >/dev/null && grep -qE "$1" <<<"$output"
}

# last, because the controller is another one after it
@test "sacct tells later who used hvd" {
    local program
    for program in slurmdbd mariadbd mysql_install_db; do
        PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || skip "$program is not installed"
    done
    plugstack record=comment
    start_accounting
    srun_in 30 --hvd-cache=78 -N1 true
    srun_in 30 -N1 --job-name=other true
    await 30 sacct_names '^[0-9]+ +root +hvd [0-9.]+: cache=78 *$'
    echo "$output"
    [ "$(grep -c 'cache=78' <<<"$output")" -eq 1 ]
}
