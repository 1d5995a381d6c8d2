# HVD_CORE_FOLDER
# ---------------
# Allow a source folder that is called "core". The scripts that autoconf generates remove core dumps by
# `rm -f core ...`. If core is a folder that fails, and the commands after it never run. So remove the
# word from the macros that emit it. Call this before AC_INIT.
AC_DEFUN([HVD_CORE_FOLDER],
[_HVD_SPARE_CORE([_AC_INIT_PREPARE])dnl
_HVD_SPARE_CORE([_AC_COMPILE_IFELSE])dnl
_HVD_SPARE_CORE([_AC_LINK_IFELSE])dnl
_HVD_SPARE_CORE([_AC_RUN_IFELSE])dnl
_HVD_SPARE_CORE([_AM_PROG_CC_C_O])dnl
])

# _HVD_SPARE_CORE(MACRO)
m4_define([_HVD_SPARE_CORE],
[m4_ifdef([$1], [m4_define([$1], m4_bpatsubst(m4_dquote(m4_defn([$1])), [rm -f core ], [rm -f ]))])])
