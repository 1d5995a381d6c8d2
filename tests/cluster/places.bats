# places.bats: programs that read their place from variables, as torchrun and horovodrun set them.
# shellcheck shell=bash

load helpers

@test "a script of torch.distributed runs unchanged, beside a docker0 as well" {
    /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null || skip "torch (Debian: python3-torch) is not installed"
    plug n1 docker0 bridge1 172.17.0.1/16
    plug n2 docker0 bridge2 172.17.0.1/16
    cat >"$CLUSTER/sum.py" <<'END'
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ones = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(ones)
print(f"rank {dist.get_rank()} has {int(ones[0])}", flush=True)
END
    run srun_in 60 --hvd -N3 -n6 /usr/bin/python3 "$CLUSTER/sum.py"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep '^rank' <<<"$output" | sort)" = "$(printf 'rank %d has 21\n' 0 1 2 3 4 5)" ]
}

@test "ranks of a step without PMIx meet by the environment" {
    run srun_in 60 --hvd --mpi=none -N2 -n4 "$HVD_BUILD/examples/hello"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'of 4' <<<"$output")" -eq 4 ]
}

@test "a forgotten srun is told" {
    for option in --hvd-fusion=2M --hvd; do
        sbatch_in 30 -N2 -n4 $option -o "$CLUSTER/job.out" --wrap "$HVD_BUILD/examples/hello"
        expect_text "$(<"$CLUSTER/job.out")" 'the Slurm job has 4 tasks and was given options of hvd: start the program with srun'
        expect_no_text "$(<"$CLUSTER/job.out")" 'of 1:'
    done
    sbatch_in 30 -N2 -n4 -o "$CLUSTER/job.out" --wrap "$HVD_BUILD/examples/hello"
    expect_text "$(<"$CLUSTER/job.out")" 'the Slurm job has 4 tasks: start the program with srun'
    expect_text "$(<"$CLUSTER/job.out")" 'of 1'
}

@test "the doctor looks at all nodes of a step" {
    HVD_MODULE_PATH=$HVD_BUILD/pmix_shim/.libs:$HVD_BUILD/core/.libs \
        run srun_in 60 --hvd -N3 -n6 "$HVD_BUILD/bin/hvdinfo" doctor
    echo "$output"
    expect_line "$output" "ok   plug-in: $CLUSTER/spank_hvd.so"
    expect_line "$output" 'ok   world: 6 ranks, as the launcher says'
    expect_line "$output" 'ok   launcher: srun'
    expect_text "$output" ' and the plug-in, the same on all nodes'
    [ "$(grep -c ' nofile: ' <<<"$output")" -eq 1 ]
    # where there is NCCL, it is told which networks hvd_init has found
    ! grep -q 'ok   NCCL: [0-9]' <<<"$output" || expect_text "$output" '; NCCL_SOCKET_IFNAME==eth0'
}
