#!/usr/bin/env bats
# trust.bats: another user of the node, who knows all that ps and /proc tell, or even the job's name in PMIx, tries to read
# the job's key, to end the job, to join it and to take a rank's place. The job goes on and is right.
# shellcheck disable=SC1091,SC2016,SC2154 # single quotes are for the ranks to expand; hvdrun.bash sets variables

load setup
load hvdrun

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/setup.bash"

# Start a job of two ranks. Rank 0 is in hvd_init, and has put the key, when this returns; rank 1 has read it into the file
# key, as PMIx carries it, and waits for the file go.
start_job() {
    "$hvdrun" -n 2 --hvd-backends="${1:-auto}" sh -c '
        env -0 >env.$PMIX_RANK; export CLAIM_UID=$(id -u); echo $$ >pid.$PMIX_RANK.part; mv pid.$PMIX_RANK.part pid.$PMIX_RANK
        [ $PMIX_RANK = 0 ] || "$1" read >key &
        [ $PMIX_RANK = 0 ] || until [ -e go ]; do sleep 0.02; done
        exec "$0"' "$HVD_BUILD/examples/hello" "$stranger" >job.out 2>&1 3>&- &
    job=$!
    local end=$((SECONDS + 30))
    until [ -e pid.0 ] && grep -qs key: key && [ -n "$(port_of_rank_0)" ]; do
        [ $SECONDS -lt $end ] || { cat job.out; return 1; }
        sleep 0.02
    done
}

port_of_rank_0() {
    ss -Hltnp | grep "pid=$(cat pid.0)," | awk '{ sub(/.*:/, "", $4); print $4; exit }'
}

# The job must end right.
end_job() {
    touch go
    wait "$job" || { cat job.out; return 1; }
    cat job.out
    [ "$(grep -c 'of 2: the sum is 3' job.out)" -eq 2 ]
}

# as_nobody NAMESPACE COMMAND ...: become user nobody, who knows what leads to the job's PMIx server, and run it.
as_nobody() {
    local namespace=$1 found=()
    shift
    while IFS= read -r -d '' entry; do
        case $entry in
        PMIX_NAMESPACE=*) ;;
        PMIX_*) found+=("$entry") ;;
        esac
    done <env.1
    exec timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups env -i "${found[@]}" PMIX_NAMESPACE="$namespace" \
        CLAIM_UID="$(id -u)" "$@" 3>&-
}

namespace_of_job() {
    tr '\0' '\n' <env.0 | sed -n 's/^PMIX_NAMESPACE=//p'
}

need_root() {
    [ "$(id -u)" -eq 0 ] || skip 'only root can come as another user'
    command -v setpriv >/dev/null || skip 'it needs setpriv'
    command -v ss >/dev/null || skip 'it needs ss'
    stranger=$PLACE/stranger
    "$HVD_BUILD/libtool" --mode=install install -m 755 "$HVD_BUILD/tests/run/stranger" "$stranger" >/dev/null 2>&1
}

setup_file() {
    export PLACE # which nobody can reach
    PLACE=$(mktemp -d /tmp/hvd-trust.XXXXXX)
    chmod 755 "$PLACE"
}

teardown_file() {
    rm -rf "$PLACE"
}

@test "another user can neither read the key nor end the job: its name in PMIx cannot be guessed" {
    need_root
    start_job
    local host pid guess name tries=0
    host=$(uname -n)
    name=$(namespace_of_job)
    [[ $name =~ ^hvdrun\..*\.[0-9a-f]{32}$ ]]
    for pid in "$job" $(pgrep -P "$job"); do
        for guess in "hvdrun.$host.$pid" "hvdrun.$host" "${name%????????}" "hvdrun-server.$pid"; do
            run as_nobody "$guess" "$stranger" read
            has 'not let in: '
            run as_nobody "$guess" PMIX_RANK=0 "$stranger" abort
            has 'not let in: '
            tries=$((tries + 1))
        done
    done
    [ $tries -ge 8 ]
    end_job
}

@test "with all that PMIx carries another user can neither join nor take a rank's place" {
    need_root
    start_job tcp
    local key port
    key=$(sed 's/.*key: //' key)
    [ ${#key} -eq 64 ]
    port=$(port_of_rank_0)
    as_nobody x "$stranger" join "$key" "$port" 0 >join.out 2>&1 &
    local join=$!
    as_nobody x "$stranger" attach "$key" 0 >attach.out 2>&1 &
    local attach=$!
    await_lines join.out 1
    await_lines attach.out 1
    end_job
    wait $join
    kill $attach 2>/dev/null || true
    wait $attach || true
    cat ./*.out
    grep -q '^refused: ' join.out
    [ "$(cat attach.out)" = looks ]
}

@test "a rank that has lost the secret, or has another, is named" {
    run timeout 60 "$hvdrun" -n 2 sh -c '[ $PMIX_RANK = 0 ] || unset HVD_JOB_KEY; exec "$0"' "$HVD_BUILD/examples/hello"
    [ "$status" -eq 1 ]
    has 'rank 1 ('
    has ' has no HVD_JOB_KEY, rank 0 ('
    run timeout 60 "$hvdrun" -n 2 --hvd-start-timeout=6s sh -c '
        [ $PMIX_RANK = 0 ] || HVD_JOB_KEY=hvdrun:0123456789abcdef; exec "$0"' "$HVD_BUILD/examples/hello"
    [ "$status" -eq 1 ]
    has 'the other end does not hold the key of this job'
}

@test "a hvdrun inside a rank has a secret of its own, and children find that of their job" {
    run timeout 60 "$hvdrun" -n 1 sh -c 'echo "outer $HVD_JOB_KEY"; sh -c "echo child \$HVD_JOB_KEY"; "$0" -n 2 "$1"
        "$0" -n 1 sh -c "echo inner \$HVD_JOB_KEY"' "$hvdrun" "$HVD_BUILD/examples/hello"
    [ "$status" -eq 0 ]
    outer=$(sed -n 's/.*outer //p' <<<"$output")
    [ ${#outer} -eq 71 ]
    [ "$(sed -n 's/.*child //p' <<<"$output")" = "$outer" ]
    inner=$(sed -n 's/.*inner //p' <<<"$output")
    [ ${#inner} -eq 71 ]
    [ "$inner" != "$outer" ]
    has 'rank 1 of 2: the sum is 3'
}
