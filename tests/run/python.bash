# python.bash: what tests of the Python package begin with, also those on a cluster. A file loads it.

# need_python MODULE...: sets PYTHON, and skips the test where that does not have them. It only looks for them: to import
# torch takes seconds.
need_python() {
    local missing
    : "${PYTHON:=/usr/bin/python3}"
    missing=$("$PYTHON" -c 'import importlib.util, sys
print(*(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))' "$@") || skip "$PYTHON cannot be run"
    [ -z "$missing" ] ||
        skip "$PYTHON has no $missing (Debian: python3-${missing// / python3-}; configure --with-python=PATH chooses)"
}
