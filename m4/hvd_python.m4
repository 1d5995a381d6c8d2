# HVD_WITH_PYTHON
# ---------------
# The Python for the package hvd and its tests. It is not needed to build anything. Another python3 may come first on PATH
# than the one that has torch, so where none is named, the first that has torch is taken, otherwise the first with
# numpy, otherwise the first. Sets PYTHON, PYTHON_FOUND and pythondir, where that Python looks for packages.
AC_DEFUN([HVD_WITH_PYTHON],
[AC_ARG_WITH([python],
   [AS_HELP_STRING([--with-python=check|yes|no|PATH], [the Python of the package hvd (default: one that has torch, if any)])],
   [], [with_python=check])
AC_ARG_VAR([pythondir], [folder for the Python package (default: where that Python looks, below the prefix)])
hvd_python_describe='import sys
from importlib.util import find_spec
assert sys.version_info >= (3, 8)
have = [[name for name in ("numpy", "torch", "pytest") if find_spec(name)]]
score = 2 * ("torch" in have and "numpy" in have) + ("numpy" in have)
print(score, "%d.%d" % sys.version_info@<:@:2@:>@, ", ".join(have) or "neither numpy nor torch")'
hvd_python_describe=`AS_ECHO(["$hvd_python_describe"]) | sed 's/\@<:@\@<:@/@<:@/; s/\@:>@\@:>@/@:>@/'`
PYTHON= PYTHON_FOUND="no: left out by --with-python=no" hvd_python_version=
AS_CASE([$with_python],
  [no], [hvd_pythons=],
  [check|yes], [hvd_pythons="python3 /usr/bin/python3 /usr/local/bin/python3"],
  [hvd_pythons=$with_python])
hvd_best=-1
for hvd_python in $hvd_pythons; do
  hvd_line=`"$hvd_python" -c "$hvd_python_describe" 2>/dev/null` || continue
  hvd_score=${hvd_line%% *} hvd_line=${hvd_line#* }
  AS_IF([test "$hvd_score" -gt "$hvd_best"],
    [hvd_best=$hvd_score PYTHON=$hvd_python hvd_python_version=${hvd_line%% *}
     PYTHON_FOUND="$hvd_python_version with ${hvd_line#* }"])
done
AS_IF([test -n "$PYTHON"],
  [PYTHON=`"$PYTHON" -c 'import sys; print(sys.executable)'`
   PYTHON_FOUND="$PYTHON, $PYTHON_FOUND"],
 [test "x$with_python" = xcheck],
  [PYTHON_FOUND="no: there is no python3 of version 3.8 or later"],
 [test "x$with_python" != xno],
  [AC_MSG_ERROR([--with-python=$with_python was given, but there is no Python of version 3.8 or later; install it, or give --with-python=no])])
dnl Debian's Python looks for what its packages bring in lib/python3, for what users bring in lib/python3.x
AS_IF([test -n "$PYTHON" && test -z "$pythondir"],
  [AS_IF(["$PYTHON" -c 'import sysconfig, sys; sys.exit("deb_system" not in sysconfig.get_scheme_names())'],
    [AS_IF([test "x$prefix" = x/usr], [pythondir='${prefix}/lib/python3/dist-packages'],
       [pythondir="\${prefix}/lib/python$hvd_python_version/dist-packages"])],
    [pythondir="\${prefix}/lib/python$hvd_python_version/site-packages"])])
AC_SUBST([PYTHON])
AM_CONDITIONAL([HAVE_PYTHON], [test -n "$PYTHON"])
])
