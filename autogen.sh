#!/bin/sh
# Make ./configure from configure.ac. Needed only in a checkout; release tarballs carry it.
set -eu
cd "$(dirname "$0")"
exec autoreconf --install --force --warnings=all,no-obsolete
