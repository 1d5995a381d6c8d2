#!/usr/bin/env bats
# Where hvdrun places ranks: on which CPUs they may run, and which variables it sets for them.
# shellcheck disable=SC2016 # what stands in single quotes is for the ranks to expand

load setup

setup() {
    hvdrun=$HVD_BUILD/bin/hvdrun
    [ -x "$hvdrun" ] || skip "hvdrun was not built: configure found no PMIx"
    "$HVD_BUILD/bin/hvdinfo" map --tasks=1 >/dev/null 2>&1 || skip "hwloc is not built in, or cannot load this machine"
    unset OMP_NUM_THREADS OMP_PLACES CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER ROCR_VISIBLE_DEVICES
    export TMPDIR=$BATS_TEST_TMPDIR
    cd "$BATS_TEST_TMPDIR" || return 1
    read -ra mine <<<"$(own_cpus)"
}

# Print the CPUs that this shell may use, as words.
own_cpus() {
    local list part
    list=$(awk '/^Cpus_allowed_list:/ { print $2 }' /proc/self/status)
    for part in ${list//,/ }; do
        seq -s ' ' "${part%-*}" "${part#*-}"
    done | paste -sd ' '
}

need_cpus() {
    [ "${#mine[@]}" -ge "$1" ] || skip "this needs $1 CPUs, and ${#mine[@]} may be used"
}

# need_cores N: use exactly N CPUs; skip the test if there are fewer, or if cores have several hardware threads.
need_cores() {
    need_cpus "$1"
    [ "$(lscpu -p=CORE,SOCKET | grep -vc '^#')" = "$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)" ] ||
        skip "cores here have several hardware threads"
    [ "${#mine[@]}" -eq "$1" ] || taskset -pc "$(printf '%s,' "${mine[@]:0:$1}" | sed 's/,$//')" $BASHPID >/dev/null
    read -ra mine <<<"$(own_cpus)"
}

# masks ARGUMENTS...: run hvdrun with these arguments, and print the CPUs of each rank, sorted by rank. "0 3" means that
# rank 0 may run on CPU 3.
masks() {
    timeout -k 5 60 "$hvdrun" "$@" sh -c \
        'echo "$PMIX_RANK $(awk "/^Cpus_allowed_list:/ { print \$2 }" /proc/self/status)"' >masks 2>err || {
        cat err
        return 1
    }
    sed -E 's/^\[[0-9]+\] //' masks | sort -n
}

hvd() {
    run timeout -k 5 60 "$hvdrun" --no-prefix "$@"
}

# refused WORDS -- ARGUMENTS...: hvdrun exits with 2 and a sentence that contains WORDS, and does not run the command.
refused() {
    local words=$1
    shift 2
    hvd "$@" touch started
    [ "$status" -eq 2 ]
    has "hvdrun: "
    has "$words"
    [ ! -e started ]
}

# Print the list of CPUs that hvdrun itself may use.
whole() {
    awk '/^Cpus_allowed_list:/ { print $2 }' /proc/self/status
}

# ---- CPUs ----------------------------------------------------------------------------------------

# inner ARG...: one hvdrun in each of two ranks; written is what their ranks write, besides the one warning of that
inner() {
    hvd -n 2 "$hvdrun" --no-prefix "$@"
    [ "$(grep -c 'hvdrun has started 2 tasks, and each hvdrun among them starts a job of its own' <<<"$output")" -eq 1 ]
    written=$(grep -v 'hvdrun has started 2 tasks' <<<"$output")
}

@test "two ranks on two cores get one each" {
    need_cores 2
    [ "$(masks -n 2)" = "0 ${mine[0]}
1 ${mine[1]}" ]
}

@test "a rank alone gets all" {
    [ "$(masks)" = "0 $(whole)" ]
    [ "$(masks --hvd-bind=auto)" = "0 $(whole)" ]
}

@test "four ranks share two cores" {
    need_cores 2
    [ "$(masks -n 4)" = "0 ${mine[0]}
1 ${mine[0]}
2 ${mine[1]}
3 ${mine[1]}" ]
}

@test "ranks that share cores start on all cores at the same time" {
    need_cores 2
    "$hvdrun" -n 6 --no-prefix sh -c 'echo "$$ $PMIX_RANK"' >out
    [ "$(sort -n out | cut -d ' ' -f 2 | paste -sd ' ')" = "0 3 1 4 2 5" ]
}

@test "more ranks than CPUs run" {
    hvd -n 64 true
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "ranks stay within the CPUs that hvdrun has" {
    need_cpus 2
    local last=${mine[-1]}
    taskset -pc "$last" $BASHPID >/dev/null
    [ "$(masks -n 2)" = "0 $last
1 $last" ]
    [ "$(masks --hvd-bind=core)" = "0 $last" ]
}

@test "with bind=none every rank may run on all" {
    local expected
    expected="0 $(whole)
1 $(whole)"
    [ "$(masks -n 2 --hvd-bind=none)" = "$expected" ]
    [ "$(HVD_BIND=none masks -n 2)" = "$expected" ]
    echo 'bind: none' >hvd.yaml
    [ "$(HVD_CONFIG=$PWD/hvd.yaml masks -n 2)" = "$expected" ]
    [ "$(HVD_SITE=bind=none masks -n 2)" = "$expected" ]
}

@test "the command line wins" {
    need_cores 2
    [ "$(HVD_BIND=none masks -n 2 --hvd-bind=core)" = "0 ${mine[0]}
1 ${mine[1]}" ]
}

# While the reaper starts a rank, it is bound to that rank's CPUs.
@test "hvdrun itself and its reaper are not bound, once the ranks have started" {
    need_cores 2
    hvd -n 2 sh -c '
        reaper=$PPID
        hvdrun=$(awk "/^PPid:/ { print \$2 }" /proc/$reaper/status)
        for look in $(seq 200); do
            grep -h Cpus_allowed_list /proc/$reaper/status /proc/$hvdrun/status >masks.$PMIX_RANK
            [ "$(sort -u masks.$PMIX_RANK)" != "Cpus_allowed_list:	$0" ] || exit 0
            sleep 0.02
        done
        exit 1' "$(whole)"
    [ "$status" -eq 0 ]
}

@test "threads and processes of a rank are where it is" {
    need_cores 2
    hvd -n 2 sh -c '(grep -h Cpus_allowed_list /proc/self/status)'
    [ "$(sort <<<"$output")" = "Cpus_allowed_list:	${mine[0]}
Cpus_allowed_list:	${mine[1]}" ]
}

# policy ARGUMENTS...: run hvdrun with these arguments, and print each rank's memory policy, sorted by rank.
policy() {
    timeout -k 5 60 "$hvdrun" "$@" awk 'NR == 1 { sub(/ file.*| anon.*| heap.*| stack.*/, ""); print $2, $3 }' \
        /proc/self/numa_maps | sort -n
}

@test "ranks that are bound have memory near them first, others as ever" {
    need_cores 2
    [ -r /proc/self/numa_maps ] || skip "the kernel does not tell where memory is from"
    [[ $(policy -n 2 --hvd-bind=core) == *prefer* ]] || skip "memory may not be chosen here"
    [ "$(policy -n 2 --hvd-bind=core | grep -c prefer)" = 2 ]
    [ "$(policy -n 2 --hvd-bind=none | grep -c default)" = 2 ]
    printf 'overlapping_rs: allow\ncpu_index_using: physical\nrank: 0: { host: 1; cpu: {%s} }\nrank: 1: { host: 1; cpu: * }\n' \
        "${mine[0]}" >erf
    policy --erf_input=erf >policies
    grep -q '^\[0\] prefer' policies
    grep -q '^\[1\] default' policies
}

@test "memory that the user has chosen with numactl is kept" {
    command -v numactl >/dev/null || skip "numactl is missing"
    numactl --interleave=0 true 2>/dev/null || skip "numactl may not choose memory here"
    need_cores 2
    run numactl --interleave=0 timeout -k 5 60 "$hvdrun" --no-prefix -n 2 numactl --show
    [ "$(grep -c '^policy: interleave' <<<"$output")" = 2 ]
}

# ---- The map -------------------------------------------------------------------------------------

@test "verbose shows the map that ranks find" {
    need_cores 2
    masks -n 2 --hvd-bind=core,verbose
    [ "$(wc -l <err)" = 2 ]
    local rank cpus
    while read -r rank cpus; do
        # of the NUMA node, or of the core's own L3 cache: that is the machine's
        grep -qE "^hvdrun: task $rank: cpus $cpus, memory .* 1 thread: 1 of [0-9]+ cores? of " err
    done < <(sed -E 's/^\[[0-9]+\] //' masks)
}

@test "verbose says what cores are short of, nothing else does" {
    need_cores 2
    masks -n 3 --hvd-bind=auto,verbose
    grep -qx "hvdrun: 3 tasks share 2 cores: start fewer tasks, or ask for more cores." err
    masks -n 3
    [ ! -s err ]
}

# ---- The ranks' environment ----------------------------------------------------------------------

@test "ranks are told how many threads to have" {
    need_cores 2
    hvd -n 2 sh -c 'echo "$OMP_NUM_THREADS $OMP_PLACES $HVD_PLACED"'
    [ "$output" = "1 threads hvdrun,OMP_NUM_THREADS,OMP_PLACES
1 threads hvdrun,OMP_NUM_THREADS,OMP_PLACES" ]
}

@test "the threads that the user has chosen stay" {
    need_cores 2
    OMP_NUM_THREADS=7 hvd -n 2 sh -c 'echo "$OMP_NUM_THREADS $HVD_PLACED"'
    [ "$output" = "7 hvdrun,OMP_PLACES
7 hvdrun,OMP_PLACES" ]
}

@test "ranks that are not bound are told nothing of threads" {
    hvd -n 2 --hvd-bind=none sh -c 'echo "${OMP_NUM_THREADS-none} $HVD_PLACED"'
    [ "$output" = "none hvdrun
none hvdrun" ]
}

@test "what an outer hvdrun said of threads does not reach the ranks of an inner one" {
    need_cores 2
    inner --hvd-bind=none sh -c 'echo "${OMP_NUM_THREADS-none} $HVD_PLACED"'
    [ "$written" = "none hvdrun
none hvdrun" ]
    OMP_NUM_THREADS=7 inner --hvd-bind=none sh -c 'echo "$OMP_NUM_THREADS"'
    [ "$written" = "7
7" ]
}

@test "an inner hvdrun stays within the rank it runs as" {
    need_cores 2
    inner -n 2 sh -c 'awk "/^Cpus_allowed_list:/ { print \$2 }" /proc/self/status'
    [ "$(sort <<<"$written")" = "$(printf '%s\n' "${mine[0]}" "${mine[0]}" "${mine[1]}" "${mine[1]}")" ]
}

@test "Open MPI is asked to yield where ranks are more than CPUs" {
    hvd -n $((${#mine[@]} + 1)) sh -c 'echo "${OMPI_MCA_mpi_yield_when_idle-unset}"'
    [ "$(sort -u <<<"$output")" = 1 ]
    hvd -n 1 sh -c 'echo "${OMPI_MCA_mpi_yield_when_idle-unset}"'
    [ "$output" = unset ]
    OMPI_MCA_mpi_yield_when_idle=0 hvd -n $((${#mine[@]} + 1)) sh -c 'echo "$OMPI_MCA_mpi_yield_when_idle"'
    [ "$(sort -u <<<"$output")" = 0 ]
}

@test "no variable is there twice" {
    hvd -n 2 env
    [ -z "$(grep -oE '^(OMP|HVD|PMIX|OMPI)_[A-Za-z0-9_]+=' <<<"$output" | sort | uniq -c | awk '$1 != 2')" ]
}

# ---- GPUs, of a recorded machine -----------------------------------------------------------------

# Run hvdrun with a recorded topology that has eight GPUs, on the CPUs of this machine.
with_gpus() {
    HWLOC_XMLFILE=$HVD_SOURCE/tests/data/topo/gpu8.xml HWLOC_THISSYSTEM=1 hvd -n 2 --hvd-bind=gpu "$@"
}

@test "ranks are told which GPUs they have" {
    [ "${mine[0]}" -lt 200 ] || skip "the recorded machine has not the CPUs of this one"
    with_gpus sh -c 'echo "$HVD_GPU_PCI $HVD_LOCAL_DEVICE $CUDA_DEVICE_ORDER ${CUDA_VISIBLE_DEVICES-unset}"'
    [ "$(sort <<<"$output")" = "0000:13:00.0,0000:15:00.0,0000:33:00.0,0000:35:00.0 0 PCI_BUS_ID unset
0000:93:00.0,0000:95:00.0,0000:b3:00.0,0000:b5:00.0 4 PCI_BUS_ID unset" ]
}

@test "with gpu-visible=one each rank sees its own GPUs, of those that the user has listed" {
    [ "${mine[0]}" -lt 200 ] || skip "the recorded machine has not the CPUs of this one"
    CUDA_VISIBLE_DEVICES=3,5 with_gpus --hvd-gpu-visible=one sh -c 'env | grep -E "^(CUDA_V|HVD_[GL])" | sort | paste -sd " "'
    [ "$(sort <<<"$output")" = "CUDA_VISIBLE_DEVICES=3 HVD_GPU_PCI=0000:35:00.0 HVD_LOCAL_DEVICE=0
CUDA_VISIBLE_DEVICES=5 HVD_GPU_PCI=0000:95:00.0 HVD_LOCAL_DEVICE=0" ]
}

@test "GPUs that an outer launcher has left to hvdrun are all that its ranks get" {
    [ "${mine[0]}" -lt 200 ] || skip "the recorded machine has not the CPUs of this one"
    export HVD_PLACED=srun,HVD_GPU_PCI,HVD_LOCAL_DEVICE,CUDA_DEVICE_ORDER,CUDA_VISIBLE_DEVICES,OMP_NUM_THREADS
    export CUDA_DEVICE_ORDER=PCI_BUS_ID HVD_GPU_PCI=0000:b5:00.0 HVD_LOCAL_DEVICE=0 OMP_NUM_THREADS=99
    CUDA_VISIBLE_DEVICES=7 with_gpus sh -c 'echo "$CUDA_VISIBLE_DEVICES $HVD_GPU_PCI $HVD_LOCAL_DEVICE"; [ "$OMP_NUM_THREADS" != 99 ]'
    [ "$status" -eq 0 ]
    [ "$output" = "7 0000:b5:00.0 0
7 0000:b5:00.0 0" ]
}

# ---- Resource sets -------------------------------------------------------------------------------

@test "resource sets make ranks and hold them" {
    need_cores 2
    local expected="0 ${mine[0]}
1 ${mine[1]}"
    [ "$(masks --nrs=2)" = "$expected" ]
    [ "$(masks --nrs 2 --tasks_per_rs 1 --cpu_per_rs 1 -n 2)" = "$expected" ]
    [ "$(masks --hvd-rs=nrs:2)" = "$expected" ]
    [ "$(HVD_RS=nrs:2 masks)" = "$expected" ]
    [ "$(masks --rs_per_host=2 --cpu_per_rs=ALL_CPUS)" = "$expected" ]
    [ "$(HVD_BIND=none masks --nrs=2)" = "$expected" ]
}

@test "tasks of a resource set share it, or have their own cores" {
    need_cores 2
    [ "$(masks --nrs=1 --tasks_per_rs=2 --cpu_per_rs=2 --bind=packed:1)" = "0 ${mine[0]}
1 ${mine[1]}" ]
    [ "$(masks --nrs=1 --tasks_per_rs=2 --cpu_per_rs=2 --bind=rs)" = "0 $(whole)
1 $(whole)" ]
    [ "$(masks --nrs=2 --tasks_per_rs=2 --bind=rs --launch_distribution=cyclic)" = "0 ${mine[0]}
1 ${mine[1]}
2 ${mine[0]}
3 ${mine[1]}" ]
}

@test "-n shares tasks out among resource sets" {
    need_cores 2
    [ "$(masks --np=4 --nrs=2 --bind=rs)" = "0 ${mine[0]}
1 ${mine[0]}
2 ${mine[1]}
3 ${mine[1]}" ]
}

@test "ranks find the resource sets among their options" {
    need_cores 2
    hvd --nrs=2 --latency_priority=cpu-mem sh -c 'echo "$HVD_CLI"'
    [ "$output" = "rs=nrs:2,latency_priority:cpu-mem
rs=nrs:2,latency_priority:cpu-mem" ]
}

# ---- Explicit resource files ---------------------------------------------------------------------

@test "an explicit resource file says which ranks there are and where" {
    need_cores 2
    printf 'cpu_index_using: physical\nrank: 0: { host: *; cpu: {%s} }\nrank: 1: { hostname: %s; cpu: {%s} }\n' \
        "${mine[1]}" "$(hostname)" "${mine[0]}" >erf
    [ "$(masks --erf_input=erf)" = "0 ${mine[1]}
1 ${mine[0]}" ]
    printf 'overlapping_rs: allow\n2 : { host: 1; cpu: * }\n1 : { host: 1; cpu: {0} }\n' >erf
    [ "$(masks --erf_input erf | cut -d ' ' -f 1 | paste -sd ' ')" = "0 1 2" ]
    [ "$(HVD_BIND=none masks --erf_input=erf | head -n 1)" = "0 $(whole)" ]
}

@test "hvdrun takes the explicit resource file that hvdinfo map writes" {
    need_cores 2
    "$HVD_BUILD/bin/hvdinfo" map --tasks=2 --erf >erf
    [ "$(masks --erf_input=erf)" = "$(masks -n 2)" ]
    masks --erf_input=erf --hvd-bind=auto,verbose
    grep -q "^hvdrun: task 1: cpus ${mine[1]}, .*: explicit resource file, line [0-9]*: " err
}

# erf_refused WORDS LINE...: hvdrun refuses an explicit resource file of these lines, with a sentence that contains WORDS
erf_refused() {
    local words=$1
    shift
    printf '%s\n' "$@" >erf
    refused "$words" -- --erf_input=erf
}

@test "explicit resource files that cannot be followed are refused" {
    refused "missing" -- --erf_input=missing
    erf_refused "erf, line 1" 'rank: 0: nonsense'
    erf_refused "erf, line 1: rank 0 is to run on host n9" 'rank: 0: { hostname: n9; cpu: * }'
    erf_refused "rank 1 is to run on host 2" 'rank: 0: { host: 1; cpu: * }' 'rank: 1: { host: 2; cpu: * }'
    erf_refused "no CPU 4000" 'rank: 0: { host: 1; cpu: {4000} }'
    erf_refused "no app of the file" 'app 0: true' 'rank: 0: { host: 1; cpu: * } : app 0'
    erf_refused "in common" 'rank: 0: { host: 1; cpu: {0} }' 'rank: 1: { host: 1; cpu: {0} }'
    printf 'rank: 0: { host: 1; cpu: * }\n' >erf
    HVD_RS=nrs:1 refused "environment (HVD_RS)" -- --erf_input=erf
    refused "leave -n out" -- --erf_input=erf -n 1
}

@test "an explicit resource file cannot leave the CPUs that hvdrun has" {
    need_cpus 2
    printf 'cpu_index_using: physical\nrank: 0: { host: 1; cpu: {%s} }\n' "${mine[0]}" >erf
    taskset -pc "${mine[-1]}" $BASHPID >/dev/null
    refused "are granted on this node" -- --erf_input=erf
}

# ---- Errors --------------------------------------------------------------------------------------

@test "bad options are refused before anything starts, whoever gives them" {
    HVD_BIND=cores refused "HVD_BIND" --
    HVD_SITE=bind=cores refused "HVD_SITE" --
    echo 'bind: cores' >hvd.yaml
    HVD_CONFIG=$PWD/hvd.yaml refused "hvd.yaml" --
    HVD_CLI=bind=cores refused "bind" --
    HVD_GPU_VISIBLE=some refused "HVD_GPU_VISIBLE" --
}

@test "what this machine cannot give is refused" {
    [ ! -e /proc/driver/nvidia ] && [ ! -e /dev/kfd ] || skip "there are GPUs here"
    refused "no GPU is granted" -- --hvd-bind=gpu
    refused "GPU" -- --nrs=1 --gpu_per_rs=1
    refused "--hvd-rs" -- --nrs=1 --cpu_per_rs=4000
    refused "reserve" -- --hvd-bind=auto,reserve:4000
    refused "5 ranks are asked for, but 2 resource sets" -- -n 5 --nrs=2
    refused "4096" -- --nrs=100 --tasks_per_rs=100
    refused "--nrs and --hvd-rs" -- --nrs=2 --hvd-rs=tasks:1
}

# Run a command on a machine that hwloc cannot load: it may read only XML files, and the one it is told of does not exist.
no_machine() {
    HWLOC_XMLFILE=/nowhere HWLOC_COMPONENTS=xml,stop "$@"
}

@test "a machine that cannot be looked at matters only to those who ask" {
    no_machine "$HVD_BUILD/bin/hvdinfo" map --tasks=1 >/dev/null 2>&1 && skip "hwloc finds this machine all the same"
    no_machine hvd -n 2 sh -c 'echo "${HVD_PLACED-unset}"'
    [ "$(grep -v '^hwloc:' <<<"$output")" = "unset
unset" ]
    no_machine hvd -n 2 --hvd-bind=none sh -c 'echo "${HVD_PLACED-unset}"'
    [ "$output" = "hvdrun
hvdrun" ]
    no_machine refused "cannot load the topology" -- --hvd-bind=core
}

@test "cards are those that hvdinfo nics would use, by name, by subnet and by themselves" {
    # a network of its own, of which /sys knows nothing: one interface has an address, two have link-local ones or none
    unshare -n ip link add hvdt0 type veth peer name hvdt1 2>/dev/null ||
        skip 'this needs root, iproute2 and interfaces of type veth'
    cat >network.sh <<'END'
ip link set lo up
ip link add hvdt0 type veth peer name hvdt1
ip link add hvdt2 type veth peer name hvdt3
ip addr add 10.9.0.1/24 dev hvdt0
for i in 0 1 2 3; do ip link set hvdt$i up; done
"$1" nics
for nics in auto hvdt2 10.9.0.0/24; do
    echo "$nics: $("$2" --hvd-nics=$nics --hvd-bind=auto,verbose -n 1 true 2>&1)"
done
END
    run unshare -n sh network.sh "$HVD_BUILD/bin/hvdinfo" "$hvdrun"
    echo "$output"
    [ "$(awk '$4 == "yes" { print $1 }' <<<"$output")" = hvdt0 ]
    grep -qE '^auto: hvdrun: task 0: .* NIC hvdt0[,:]? ' <<<"$output"
    grep -qE '^hvdt2: hvdrun: task 0: .* NIC hvdt2[,:]? ' <<<"$output"
    grep -qE '^10.9.0.0/24: hvdrun: task 0: .* NIC hvdt0[,:]? ' <<<"$output"
}
