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
