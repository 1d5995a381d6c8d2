#!/usr/bin/env bats
# plugin.bats: which libraries and symbols the plug-in needs from the process that loads it, and which it exports.

PLUGIN=${HVD_BUILD:-.}/spank/.libs/spank_hvd.so

setup() {
    [ -e "$PLUGIN" ] || skip 'the plug-in was not built: see Slurm in the summary of configure'
    command -v readelf >/dev/null || skip 'it needs readelf (Debian: binutils)'
}

@test "it needs nothing that slurmstepd must not load" {
    run readelf -d "$PLUGIN"
    [ "$status" -eq 0 ]
    grep NEEDED <<<"$output"
    run grep -iE 'NEEDED.*(cuda|nccl|nvidia|mpi|pmix|sodium|yaml|slurm|ibverbs|opencl|libX|libhvd)' <<<"$output"
    [ "$status" -eq 1 ]
}

@test "it looks in no folder of its own for libraries" {
    run readelf -d "$PLUGIN"
    [ "$status" -eq 0 ]
    run grep -E 'RPATH|RUNPATH' <<<"$output"
    [ "$status" -eq 1 ]
}

@test "it exports what Slurm asks for and nothing more" {
    run readelf --dyn-syms --wide "$PLUGIN"
    [ "$status" -eq 0 ]
    exported=$(awk '$7 != "UND" && ($5 == "GLOBAL" || $5 == "WEAK") { print $8 }' <<<"$output" | sort | xargs)
    expected='plugin_name plugin_type plugin_version slurm_spank_exit slurm_spank_init slurm_spank_init_post_opt'
    expected+=' slurm_spank_local_user_init slurm_spank_task_exit slurm_spank_task_init slurm_spank_task_post_fork slurm_spank_user_init'
    expected+=' spank_plugin_version'
    echo "exported: $exported"
    [ "$exported" = "$expected" ]
}

@test "of Slurm it asks for what spank.h declares" {
    run readelf --dyn-syms --wide "$PLUGIN"
    asked=$(awk '$7 == "UND" { print $8 }' <<<"$output" | grep -E '^(slurm|spank)' | sort | xargs)
    echo "asked: $asked"
    for symbol in $asked; do
        grep -qw "$symbol" <<<'slurm_error slurm_info slurm_spank_log slurm_verbose spank_context spank_get_item spank_getenv
            spank_option_register spank_setenv spank_strerror spank_unsetenv'
    done
}
