# The optional packages. The same rule holds for all: --with-X=check (the default) uses the package if it is
# found, yes makes its absence an error, no leaves it out. Each sets HAVE_X (automake, C), X_FOUND (its
# version, or why it is left out), X_CFLAGS and X_LIBS.

# HVD_FOUND(NAME, VARIABLE, PURPOSE, WANT, VERSION, WHY-NOT)
# ----------------------------------------------------------
# Record the result for one package. VERSION is empty if it was not found.
AC_DEFUN([HVD_FOUND],
[AS_IF([test -n "$5"],
   [$2_FOUND=$5
    AC_DEFINE([HAVE_$2], [1], [Define to 1 to build $3.])],
 [test "x$4" = xyes],
   [AC_MSG_ERROR([--with-$1=yes was given, but $6; install it, or give --with-$1=no])],
 [$2_FOUND="no: $6"])
AC_DEFINE_UNQUOTED([BUILT_WITH_$2], ["$$2_FOUND"], [Version of $1 built in, or why it is not.])
AM_CONDITIONAL([HAVE_$2], [test -n "$5"])
])

# HVD_WANT(NAME, PURPOSE)
# -----------------------
AC_DEFUN([HVD_WANT],
[AC_ARG_WITH([$1],
   [AS_HELP_STRING([--with-$1=check|yes|no], [build $2 (default: check)])], [],
   [with_$1=check])
AS_CASE([$with_$1], [check|yes|no], [],
  [AC_MSG_ERROR([--with-$1=$with_$1: expected check, yes or no])])])

# HVD_WITH_PKG(NAME, VARIABLE, PURPOSE, PKG-CONFIG MODULE)
# --------------------------------------------------------
AC_DEFUN([HVD_WITH_PKG],
[HVD_WANT([$1], [$3])
hvd_version= hvd_why="left out by --with-$1=no"
AS_IF([test "x$with_$1" != xno],
  [PKG_CHECK_MODULES([$2], [$4],
     [hvd_version=`$PKG_CONFIG --modversion m4_bpatsubst([$4], [ .*])`],
     [hvd_why="pkg-config does not find $4"])])
HVD_FOUND([$1], [$2], [$3], [$with_$1], [$hvd_version], [$hvd_why])])

# HVD_WITH_SLURM
# --------------
# Only spank.h is needed: the process that loads the plug-in provides the symbols.
AC_DEFUN([HVD_WITH_SLURM],
[HVD_WANT([slurm], [the SPANK plug-in])
hvd_version= hvd_why="left out by --with-slurm=no"
AS_IF([test "x$with_slurm" != xno],
  [AC_CHECK_HEADER([slurm/spank.h],
     [AC_COMPUTE_INT([hvd_slurm_major], [SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER)], [#include <slurm/slurm.h>])
      AC_COMPUTE_INT([hvd_slurm_minor], [SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER)], [#include <slurm/slurm.h>])
      AC_COMPUTE_INT([hvd_slurm_micro], [SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER)], [#include <slurm/slurm.h>])
      hvd_version=`printf '%02d.%02d.%d' $hvd_slurm_major $hvd_slurm_minor $hvd_slurm_micro`],
     [hvd_why="the header slurm/spank.h is missing"])])
# where this Slurm has its plug-ins, inside our own prefix; Debian calls the folder slurm-wlm
AS_VAR_IF([prefix], [NONE], [hvd_prefix=$ac_default_prefix], [hvd_prefix=$prefix])
hvd_libdir=$(prefix=$hvd_prefix; exec_prefix=$hvd_prefix; eval "echo $libdir")
AS_IF([test -d "$hvd_libdir/slurm-wlm"], [SLURM_PLUGIN_DIR='${libdir}/slurm-wlm'], [SLURM_PLUGIN_DIR='${libdir}/slurm'])
AC_SUBST([SLURM_PLUGIN_DIR])
HVD_FOUND([slurm], [SLURM], [the SPANK plug-in], [$with_slurm], [$hvd_version], [$hvd_why])])

# HVD_GPUS
# --------
# NVCC_GPUS: the flags of nvcc for the kinds of GPUs that it knows among A100, H100 and B200, and PTX of the newest.
AC_DEFUN([HVD_GPUS],
[AC_CACHE_CHECK([which GPUs $NVCC compiles for], [hvd_cv_gpus],
  [hvd_cv_gpus=
   hvd_known=`$NVCC --list-gpu-code 2>/dev/null`
   for hvd_gpu in 80 90 100; do
     AS_CASE([" "`echo $hvd_known`" "], [*" sm_$hvd_gpu "*], [hvd_cv_gpus="$hvd_cv_gpus $hvd_gpu"])
   done])
NVCC_GPUS=
for hvd_gpu in $hvd_cv_gpus; do
  NVCC_GPUS="$NVCC_GPUS -gencode arch=compute_$hvd_gpu,code=sm_$hvd_gpu"
done
AS_IF([test -n "$NVCC_GPUS"],
  [NVCC_GPUS="$NVCC_GPUS -gencode arch=compute_$hvd_gpu,code=compute_$hvd_gpu"])
AC_SUBST([NVCC_GPUS])])

# HVD_WITH_CUDA
# -------------
# Tensors on GPUs. libhvd declares itself what it needs of CUDA's driver library and of NCCL, and opens them at run time, or
# never with --with-cuda=no or --with-nccl=no. nvcc, from --with-cuda-prefix, /usr/local/cuda* or PATH, compiles the kernels
# for HVD_GPUS and, as PTX, for GPUs newer than these; HAVE_NVCC says whether it can. cuda.h and nccl.h are only compared
# with libhvd's declarations, in a test.
AC_DEFUN([HVD_WITH_CUDA],
[HVD_WANT([cuda], [with CUDA])
HVD_WANT([nccl], [with NCCL])
AC_ARG_WITH([cuda-prefix],
  [AS_HELP_STRING([--with-cuda-prefix=DIR], [where CUDA is (default: the newest /usr/local/cuda*)])], [],
  [with_cuda_prefix=])
hvd_cuda_prefix=$with_cuda_prefix
AS_IF([test -z "$hvd_cuda_prefix"],
  [for hvd_dir in /usr/local/cuda /usr/local/cuda-*; do
     AS_IF([test -z "$hvd_cuda_prefix" && test -x "$hvd_dir/bin/nvcc"], [hvd_cuda_prefix=$hvd_dir])
   done])

hvd_version= hvd_why="left out by --with-cuda=no" NVCC_GPUS=
AS_IF([test "x$with_cuda" != xno],
  [AC_PATH_PROG([NVCC], [nvcc], [], [$hvd_cuda_prefix/bin:$PATH])
   AS_IF([test -z "$NVCC"], [hvd_why="there is no nvcc, which compiles the kernels"],
     [HVD_GPUS
      AS_IF([test -z "$NVCC_GPUS"], [hvd_why="$NVCC compiles for none of the GPUs that hvd knows"],
        [hvd_version=`$NVCC --version | sed -n 's/.* release \(@<:@0-9.@:>@*\).*/\1/p'`
         hvd_version=${hvd_version:-unknown version}])])
   AS_IF([test "x$with_cuda" = xcheck], [hvd_version=${hvd_version:-without kernels: $hvd_why}])
   hvd_save_CPPFLAGS=$CPPFLAGS
   AS_IF([test -n "$hvd_cuda_prefix"],
     [CUDA_CFLAGS="-isystem $hvd_cuda_prefix/include" CPPFLAGS="$CPPFLAGS $CUDA_CFLAGS"])
   AC_CHECK_HEADERS([cuda.h nccl.h])
   CPPFLAGS=$hvd_save_CPPFLAGS])
AC_SUBST([CUDA_CFLAGS])
AM_CONDITIONAL([HAVE_NVCC], [test -n "$NVCC_GPUS"])
HVD_FOUND([cuda], [CUDA], [with CUDA], [$with_cuda], [$hvd_version], [$hvd_why])

hvd_version="2.18 or newer" hvd_why=
AS_IF([test "x$with_nccl" = xno], [hvd_version= hvd_why="left out by --with-nccl=no"],
  [test "x$with_cuda" = xno], [hvd_version= hvd_why="it needs CUDA, which is left out"])
HVD_FOUND([nccl], [NCCL], [with NCCL], [$with_nccl], [$hvd_version], [$hvd_why])])
