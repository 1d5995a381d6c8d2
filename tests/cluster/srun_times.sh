#!/bin/bash
# srun_times.sh: measures how much time the plug-in adds to the start of a step of 6 tasks on the 3 nodes of a test
# cluster. Each variant runs once in each of [ROUNDS] rounds (15). Prints the median time of each variant, and the median of
# its differences from the first variant in the same round. Each round begins with another variant, because the end of a
# step slows down the next one. Needs root.
#
#   tests/cluster/srun_times.sh [ROUNDS]
set -eu

rounds=${1:-15}
BATS_TEST_DIRNAME=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/cluster/helpers.bash
. "$BATS_TEST_DIRNAME/helpers.bash"

# all steps run in one allocation, because a new job may have to wait for the end of the one before
step=(srun -N3 -n6 --overlap --mpi=none --cpu-bind=none)
ways=('without the plug-in' 'with it, plain step' 'bind=none' 'bind=core, cached topology' 'bind=core, live')

# way NUMBER: write the variant's line of plugstack.conf, and run its step, without output.
way() {
    case $1 in
    0) plugstack_none && "${step[@]}" true ;;
    1) plugstack && "${step[@]}" true ;;
    2) plugstack && "${step[@]}" --hvd-bind=none true ;;
    3) plugstack "topology=$CLUSTER/node.xml" && "${step[@]}" --hvd-bind=core true ;;
    4) plugstack && "${step[@]}" --hvd-bind=core true ;;
    esac
}

# Runs on the login node, so that only srun is timed. Writes one line for each round: the times of all variants, in us.
measure() {
    local round i number began took
    for ((round = 0; round < rounds; round++)); do
        took=()
        for i in "${!ways[@]}"; do
            number=$(((i + round) % ${#ways[@]}))
            began=${EPOCHREALTIME/./}
            way "$number"
            took[number]=$((${EPOCHREALTIME/./} - began))
        done
        echo "${took[*]}" >>"$CLUSTER/times"
    done
}

# Print the median of column $1; with $2, that of its differences from column $2.
median() {
    awk -v column="$1" -v above="${2:-0}" '{ print $column - (above > 0 ? $above : 0) }' "$CLUSTER/times" | sort -n |
        awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

report() {
    local number
    for number in "${!ways[@]}"; do
        awk -v name="${ways[$number]}" -v us="$(median $((number + 1)))" -v more_us="$(median $((number + 1)) 1)" \
            'BEGIN { printf "%-28s %7.1f ms %+7.1f ms\n", name, us / 1000, more_us / 1000 }'
    done
}

if [ -n "${CLUSTER-}" ]; then
    measure
    exit
fi
cluster_start
[ -z "$CLUSTER_WHY_NOT" ] || { echo "srun_times.sh: $CLUSTER_WHY_NOT" >&2; exit 1; }
trap cluster_stop EXIT
# shellcheck disable=SC2046 # one word a CPU
write_topology "$CLUSTER/node.xml" $(seq 0 $(($(nproc) - 1)))
salloc_in 300 -N3 -n6 env CLUSTER="$CLUSTER" HVD_BUILD="$HVD_BUILD" "$BATS_TEST_DIRNAME/srun_times.sh" "$rounds"
report
echo "load $(cut -d' ' -f1-3 /proc/loadavg)"
