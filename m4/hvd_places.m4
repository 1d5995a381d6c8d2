# HVD_PLACE(NAME, FOLDER, PURPOSE)
# --------------------------------
# Define NAME in config.h as FOLDER, with prefix and the like put in. From there make learns that what was built for
# another prefix is to be built again; a flag of the compiler would not tell it.
AC_DEFUN([HVD_PLACE],
[hvd_place=$(
   AS_VAR_IF([prefix], [NONE], [prefix=$ac_default_prefix])
   AS_VAR_IF([exec_prefix], [NONE], [exec_prefix=$prefix])
   eval "hvd_inner=\"$2\""
   eval "hvd_inner=\"$hvd_inner\""
   AS_ECHO(["$hvd_inner"]))
AC_DEFINE_UNQUOTED([$1], ["$hvd_place"], [$3])])
