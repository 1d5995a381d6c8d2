#!/usr/bin/env bats
# encrypt.bats: what --hvd-encrypt=on hides, and what it finds out. For several nodes see tests/cluster/trust.bats.
# shellcheck disable=SC2016 # single quotes are for inner shells to expand

bats_require_minimum_version 1.5.0
load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    need_hvdrun
    export COLLECTIVES_DIR=$BATS_TEST_TMPDIR
}

# Print what of the words in hexadecimal is in the packets that loopback carries while a job runs in a network of its own.
on_the_wire() {
    unshare --net sh -c 'ip link set lo up; exec "$@"' sh python3 -c '
import re, socket, subprocess, sys
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("lo", 0))
wire.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
wire.settimeout(1)
job = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE)
packets = b""
try:
    while True:
        packets += wire.recv(1 << 17)
except socket.timeout:
    pass
print("status", job.returncode, "captured", len(packets) > 1000000)
for word in sys.argv[1].split(","):
    if bytes.fromhex(word) in packets:
        print("found", word)' "$@"
}

@test "with encryption nothing of a tensor is on the wire" {
    [ "$(id -u)" -eq 0 ] || skip 'only root can listen on a network'
    command -v python3 >/dev/null || skip 'it needs python3'
    unshare --net true 2>/dev/null || skip 'this root may not make namespaces'
    # the mark of a fragment's header, and an element
    local command=("$hvdrun" -n 2 --hvd-backends=tcp --hvd-fusion=64M "$HVD_BUILD/tests/run/plain_tensor") word=5a647668
    word+=,$("$HVD_BUILD/tests/run/plain_tensor" print)
    run on_the_wire "$word" "${command[@]}"
    echo "$output"
    [[ $output == *'status 0 captured True'* ]]
    [ "$(grep -c found <<<"$output")" -eq 2 ] # so the test can find them
    run on_the_wire "$word" "${command[@]:0:3}" --hvd-encrypt=on "${command[@]:3}"
    echo "$output"
    [[ $output == *'status 0 captured True'* ]]
    [[ $output != *found* ]]
}

@test "a changed byte ends the job with a sentence that names both ends" {
    local rank
    for rank in 0 1; do
        run timeout 60 "$hvdrun" --no-prefix -n 2 --hvd-encrypt=on --hvd-backends=tcp sh -c '
            [ "$PMIX_RANK" != "$2" ] || export FLIP_AFTER=5 LD_PRELOAD="$1"
            exec "$0" --epochs=50' "$HVD_BUILD/examples/train" "$HVD_BUILD/tests/run/.libs/flip_byte.so" $rank
        echo "$output"
        [ "$status" -ne 0 ]
        grep -qE "the connection of rank $((1 - rank)) \(.*\) at .* with rank $rank \(.*\) at .* was tampered with" <<<"$output"
    done
}

@test "encrypted, all operations over tcp give the same" {
    local case
    for case in allreduce order broadcast again; do
        rm -f "$BATS_TEST_TMPDIR"/[0-9]*
        run timeout -k 5 100 "$hvdrun" --no-prefix -n 4 --hvd-encrypt=on --hvd-backends=tcp --hvd-tcp-streams=2 \
            "$HVD_BUILD/tests/run/collectives" "$case"
        echo "$output"
        [ "$status" -eq 0 ]
    done
    run timeout -k 5 100 "$hvdrun" --no-prefix -n 3 --hvd-encrypt=on --hvd-backends=tcp "$HVD_BUILD/tests/run/property" $RANDOM 150 3
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "what MPI sends cannot be encrypted: backend mpi is refused" {
    run timeout 60 "$hvdrun" --no-prefix -n 2 --hvd-encrypt=on --hvd-backends=mpi "$HVD_BUILD/examples/hello"
    [ "$status" -ne 0 ]
    has 'mpi: '
    [[ $output == *'encrypt=on, and hvd cannot encrypt what MPI sends'* || $output == *'built without MPI'* ]]
}

@test "ranks of which some encrypt do not start" {
    run timeout 60 "$hvdrun" --no-prefix -n 2 sh -c '[ "$PMIX_RANK" = 0 ] || export HVD_ENCRYPT=on; exec "$0"' "$HVD_BUILD/examples/hello"
    [ "$status" -ne 0 ]
    has 'option encrypt: '
}
