ulimit -c 0
dd if=/dev/zero of=/tmp/me/prog bs=64 count=8 2>/dev/null
timeout 60 bin/hvdrun --no-prefix -n 5 bash -c 'if [ $PMIX_RANK = 2 ]; then ulimit -v 293888; exec gdb -batch -ex "handle SIGSEGV stop nopass" -ex run -ex bt -ex "info registers rip" --args "$@"; fi; exec "$@"' bash tests/chaos/.libs/worker 66 60 5 /tmp/me/prog 2>&1 | cut -c1-200 | tail -30
