# helpers.bash: shared by the tests on a cluster: starts a cluster for each file, and runs commands with a time limit.
# shellcheck shell=bash disable=SC2016,SC2119,SC2120
#
# A file begins with  load helpers  which gives it a cluster. A file that needs more than that defines, after the
# load, its own setup_file, which calls cluster_start, or its own setup, which calls cluster_or_skip. In a test:
#   srun_in SECONDS ARGS      srun on the login node, ended after SECONDS; salloc_in likewise
#   sbatch_in SECONDS ARGS    submit a batch job and wait for its end
#   login_in SECONDS CMD ARGS any command there
#   node_in SECONDS n2 CMD    any command on a node
#   start_slowly              give hvd_init more time on a slow machine
#   await SECONDS CMD ARGS    repeat a command until it succeeds
#   begin_in SECONDS CMD ARGS like login_in, in the background, where $job writes to $out; then
#   shows TEXT, goes_on, ends STATUS   wait for what it comes to
#   node_returns n3           take a node that was down into service again
#   plug n2 INTERFACE NETWORK ADDRESS   give a node one more interface, as cluster.sh says
#   plugstack [ARGS]          from now on plugstack.conf loads the plug-in with these arguments
#   plugstack_none            from now on the plug-in is not loaded
#   write_topology FILE CPU ...  write hwloc's XML of a machine with these CPUs and two GPUs
#   $CLUSTER                  the cluster's folder: logs are in $CLUSTER/log; tests may put files here for all users
#   $HVD_BUILD, $HVD_SOURCE   the build and the source tree

HVD_SOURCE=${HVD_SOURCE:-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)}
HVD_BUILD=${HVD_BUILD:-$HVD_SOURCE}
CLUSTER_SH=$HVD_SOURCE/tests/cluster/cluster.sh
PATIENCE=${CK_TIMEOUT_MULTIPLIER:-1} # as tests/bin/timeout has
PLUGIN=$HVD_BUILD/spank/.libs/spank_hvd.so

# Print in one line why there can be no cluster; nothing if there can.
cluster_why_not() {
    if [ ! -e "$PLUGIN" ]; then
        echo 'the plug-in was not built: see Slurm in the summary of configure'
    elif readelf -d "$PLUGIN" | grep -qE 'NEEDED.*lib(a|t|ub)san'; then
        echo 'the plug-in was built with a sanitizer, which Slurm cannot load'
    else
        "$CLUSTER_SH" check
    fi
}

cluster_start() {
    export CLUSTER CLUSTER_WHY_NOT
    CLUSTER_WHY_NOT=$(cluster_why_not)
    [ -z "$CLUSTER_WHY_NOT" ] || return 0
    CLUSTER=$(mktemp -d /tmp/hvd.XXXXXX)
    cp "$PLUGIN" "$CLUSTER/"
    plugstack
    # the cluster ends at the end of its standard input, so when this shell ends, for whatever reason
    mkfifo "$CLUSTER/hold"
    "$CLUSTER_SH" start -t "$CLUSTER" <"$CLUSTER/hold" &
    # shellcheck disable=SC2034 # kept open, never used
    exec {CLUSTER_HOLD}>"$CLUSTER/hold"
    wait $!
}

cluster_stop() {
    [ -n "$CLUSTER_WHY_NOT" ] || "$CLUSTER_SH" stop "$CLUSTER"
}

cluster_or_skip() {
    TEST_BEGAN=$(date +%FT%T)
    [ -z "$CLUSTER_WHY_NOT" ] || skip "$CLUSTER_WHY_NOT"
    plugstack
}

# Steps of this test that start late do not fail, where the other bounds are longer too. They all use hvd then.
start_slowly() {
    export HVD_START_TIMEOUT=$((30 * PATIENCE))s
}

# await SECONDS CMD ARGS: run a command until it succeeds. Fails when the time is over.
await() {
    local end=$((SECONDS + $1 * PATIENCE))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "in vain: $*"; return 1; }
        sleep 0.05
    done
}

# What Slurm complained of first during a test that failed, and what it still does.
slurm_complaints() {
    [ -z "${BATS_TEST_COMPLETED-}" ] && [ -z "$CLUSTER_WHY_NOT" ] || return 0
    (cd "$CLUSTER/log" && awk -v began="[$TEST_BEGAN" '$1 >= began && /error|time.?out|retry|not respond/ {
        print FILENAME ": " $0 }' slurm* | grep -v 'Context ptr' | sort -t '[' -k 2 | cut -c 1-180 | sed 8q)
    login_in 5 squeue --noheader --format='job %i: %T on %N' || true
}

setup_file() { cluster_start; }
teardown_file() { cluster_stop; }
setup() { cluster_or_skip; }
teardown() { slurm_complaints; }

login_in() {
    local seconds=$1
    shift
    timeout -k 5 $((seconds + 5)) "$CLUSTER_SH" run "$CLUSTER" timeout -k 2 "$seconds" "$@"
}

srun_in() {
    local seconds=$1
    shift
    login_in "$seconds" srun "$@"
}

# Not by sbatch --wait, which looks only every few seconds.
sbatch_in() {
    local seconds=$1 job
    shift
    job=$(login_in 10 sbatch --parsable "$@") || return
    login_in "$seconds" sh -c 'while [ -n "$(squeue -h -j "$1" 2>/dev/null)" ]; do sleep 0.05; done' sh "$job"
}

salloc_in() {
    local seconds=$1
    shift
    login_in "$seconds" salloc -Q "$@"
}

node_in() {
    local seconds=$1 node=$2
    shift 2
    timeout -k 5 $((seconds + 5)) "$CLUSTER_SH" at "$CLUSTER" "$node" timeout -k 2 "$seconds" "$@"
}

begin_in() {
    out=$CLUSTER/out.$BATS_TEST_NUMBER
    login_in "$@" >"$out" 2>&1 3>&- &
    job=$!
}

# shows TEXT: wait until the output has a line that begins so
shows() {
    await 60 grep -q "^$1" "$out" || {
        grep -v '^epoch' "$out"
        false
    }
}

# goes_on: the training takes some more steps
goes_on() {
    local last
    last=$(sed -n 's/^epoch \([0-9]*\) .*/\1/p' "$out" | tail -n 1)
    shows "epoch $((last + 3)) "
}

# ends STATUS: the job ends with it; what it has written is in $output then
ends() {
    local status=0
    wait "$job" || status=$?
    output=$(<"$out")
    echo "$status: $output"
    [ "$status" -eq "$1" ]
}

node_returns() {
    login_in 10 scontrol update "NodeName=$1" State=RESUME
    await 60 login_in 10 sh -c '[ "$(sinfo -h -n "$1" -o %T)" = idle ]' sh "$1"
}

plug() {
    timeout -k 5 20 "$CLUSTER_SH" plug "$CLUSTER" "$@"
}

# srun, sbatch, salloc and slurmstepd read the file each time they start.
plugstack() {
    echo "required ${CLUSTER:?there is no cluster}/spank_hvd.so $*" >"$CLUSTER/plugstack.conf"
}

plugstack_none() {
    : >"${CLUSTER:?there is no cluster}/plugstack.conf"
}

# write_topology FILE CPU ...: write hwloc's XML of a machine with a core for each of these CPUs, and two GPUs.
write_topology() {
    local file=$1 all=0 cpu bus
    shift
    set_of() {
        printf 'cpuset="0x%08x" complete_cpuset="0x%08x" nodeset="0x00000001" complete_nodeset="0x00000001"' "$1" "$1"
    }
    for cpu in "$@"; do
        all=$((all | 1 << cpu))
    done
    {
        echo '<?xml version="1.0" encoding="UTF-8"?>'
        echo '<!DOCTYPE topology SYSTEM "hwloc2.dtd">'
        echo '<topology version="2.0">'
        printf '<object type="Machine" os_index="0" %s allowed_cpuset="0x%08x" allowed_nodeset="0x00000001" gp_index="1">\n' \
            "$(set_of $all)" $all
        echo "<object type=\"NUMANode\" os_index=\"0\" local_memory=\"2147483648\" $(set_of $all) gp_index=\"2\"/>"
        echo "<object type=\"Package\" os_index=\"0\" $(set_of $all) gp_index=\"3\">"
        for cpu in "$@"; do
            echo "<object type=\"Core\" os_index=\"$cpu\" $(set_of $((1 << cpu))) gp_index=\"$((10 + cpu * 2))\">"
            echo "<object type=\"PU\" os_index=\"$cpu\" $(set_of $((1 << cpu))) gp_index=\"$((11 + cpu * 2))\"/></object>"
        done
        echo '</object>'
        echo '<object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[00-ff]" gp_index="100">'
        for bus in 17 2a; do
            echo "<object type=\"PCIDev\" pci_busid=\"0000:$bus:00.0\" pci_type=\"0302 [10de:2330] [0000:0000] a1\"" \
                "pci_link_speed=\"63.015385\" gp_index=\"1$((16#$bus))\"/>"
        done
        echo '</object></object></topology>'
    } >"$file"
    chmod 644 "$file"
}

slurm_has_pmix() {
    login_in 10 srun --mpi=list 2>&1 | grep -qw pmix
}

# Print how many jobs the controller has seen.
job_count() {
    login_in 10 scontrol -o show jobs | grep -c JobId= || true
}

# Each of these fails the test and prints what it found instead.
expect_line() {
    grep -qxF -- "$2" <<<"$1" || { printf 'no line "%s" in:\n%s\n' "$2" "$1"; return 1; }
}

expect_text() {
    grep -qF -- "$2" <<<"$1" || { printf 'no "%s" in:\n%s\n' "$2" "$1"; return 1; }
}

expect_no_text() {
    ! grep -F -- "$2" <<<"$1" || { printf '"%s" in:\n%s\n' "$2" "$1"; return 1; }
}
