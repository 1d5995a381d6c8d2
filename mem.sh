ulimit -c 0
dd if=/dev/zero of=/tmp/me/prog bs=64 count=8 2>/dev/null
for m in 60 100 140 180 220 260 287 300 340; do echo "== $m"; timeout 60 bin/hvdrun --no-prefix -n 2 bash -c 'if [ $PMIX_RANK = 1 ]; then ulimit -v '$m'000; fi; exec "$@"' bash tests/chaos/worker 66 60 2 /tmp/me/prog 2>&1 | cut -c1-200 | tail -3; done
