# How it is compiled, what is tested, what is said at the end.

# HVD_WARNINGS
# ------------
# HVD_CFLAGS: the warnings of the house style, and hidden symbols; --enable-werror makes them errors
# (CI does; a release must not break on next year's compiler). --enable-sanitizers=LIST compiles
# everything with -fsanitize=LIST.
AC_DEFUN([HVD_WARNINGS],
[HVD_CFLAGS="-std=gnu11 -fvisibility=hidden -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wconversion -Wno-sign-conversion -Wvla -Wwrite-strings -Wformat=2"
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [turn warnings into errors])], [],
  [enable_werror=no])
AS_IF([test "x$enable_werror" = xyes], [HVD_CFLAGS="$HVD_CFLAGS -Werror"])
AC_ARG_ENABLE([sanitizers],
  [AS_HELP_STRING([--enable-sanitizers=LIST], [compile with -fsanitize=LIST, such as address,undefined or thread])], [],
  [enable_sanitizers=no])
AS_IF([test "x$enable_sanitizers" != xno],
  [HVD_CFLAGS="$HVD_CFLAGS -fsanitize=$enable_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
   AC_SUBST([HVD_LDFLAGS], ["-fsanitize=$enable_sanitizers"])])
dnl a shared library leaves nothing unresolved, but for the sanitizer's calls, which clang leaves to the program
HVD_RESOLVED="-Wl,-z,defs"
AS_IF([test "x$enable_sanitizers" != xno], [HVD_RESOLVED=])
AC_SUBST([HVD_RESOLVED])
AM_CONDITIONAL([SANITIZED], [test "x$enable_sanitizers" != xno])
AC_SUBST([HVD_CFLAGS])])

# HVD_TARGETS
# -----------
# The kinds of processors that core/plane/kernels.c is compiled for, besides what CFLAGS say: TARGET_AVX2 and
# AVX2_CFLAGS, where the compiler makes code for them, and so on. Which of them runs is decided at run time.
AC_DEFUN([HVD_TARGETS],
[HVD_TARGET([avx512], [AVX512], [avx512vbmi2],
  [-mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c -mprefer-vector-width=512])
HVD_TARGET([avx2], [AVX2], [avx2], [-mavx2 -mf16c])])

# HVD_TARGET(NAME, MACRO, WHAT THE COMPILER ASKS A PROCESSOR FOR, FLAGS)
AC_DEFUN([HVD_TARGET],
[AC_CACHE_CHECK([whether $CC makes code for $1], [hvd_cv_target_$1],
  [hvd_saved_CFLAGS=$CFLAGS
   CFLAGS="$CFLAGS $4"
   AC_COMPILE_IFELSE([AC_LANG_PROGRAM(
@%:@if !defined __x86_64__ || !defined __F16C__
@%:@error "no such processors"
@%:@endif
@%:@include <cpuid.h>
@%:@include <immintrin.h>, [return !__builtin_cpu_supports("$3") || _mm256_cvtss_f32(_mm256_setzero_ps()) > 0])],
     [hvd_cv_target_$1=yes], [hvd_cv_target_$1=no])
   CFLAGS=$hvd_saved_CFLAGS])
AS_IF([test "x$hvd_cv_target_$1" = xyes],
  [AC_DEFINE([HAVE_TARGET_$2], [1], [Define to 1 where core/plane/kernels.c is compiled for $1, too.])
   HVD_KERNELS="$HVD_KERNELS $1"])
AC_SUBST([$2_CFLAGS], ["$4"])
AM_CONDITIONAL([TARGET_$2], [test "x$hvd_cv_target_$1" = xyes])])

# HVD_TESTS
# ---------
AC_DEFUN([HVD_TESTS],
[AC_ARG_ENABLE([tests], [AS_HELP_STRING([--disable-tests], [build without the unit tests, which need Check])], [],
  [enable_tests=yes])
AS_IF([test "x$enable_tests" = xyes],
  [PKG_CHECK_MODULES([CHECK], [check >= 0.15], [],
     [AC_MSG_ERROR([the unit tests need Check >= 0.15 (Debian: check); install it, or give --disable-tests])])])
AM_CONDITIONAL([TESTS_ENABLED], [test "x$enable_tests" = xyes])
AC_REQUIRE_AUX_FILE([tap-driver.sh])
AC_PROG_AWK])

# HVD_SUMMARY
# -----------
AC_DEFUN([HVD_SUMMARY],
[AC_MSG_NOTICE([
    hvd $PACKAGE_VERSION
    PMIx        $PMIX_FOUND
    Slurm       $SLURM_FOUND
    hwloc       $HWLOC_FOUND
    MPI         $MPI_FOUND
    jansson     $JANSSON_FOUND
    CUDA        $CUDA_FOUND
    NCCL        $NCCL_FOUND
    kernels    $HVD_KERNELS plain
    unit tests  $enable_tests
    sanitizers  $enable_sanitizers
    install to  $prefix])])
