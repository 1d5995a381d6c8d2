# How hvd is compiled, which tests are built, and the summary at the end of configure.

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
dnl shared libraries may have no unresolved symbols, except with sanitizers, whose calls clang leaves to the program
HVD_RESOLVED="-Wl,-z,defs"
AS_IF([test "x$enable_sanitizers" != xno], [HVD_RESOLVED=])
AC_SUBST([HVD_RESOLVED])
AM_CONDITIONAL([SANITIZED], [test "x$enable_sanitizers" != xno])
AC_SUBST([HVD_CFLAGS])])

# HVD_LTO
# -------
# Whether libhvd is optimised as a whole when it is linked: its stages are small files that call each other for each
# tensor. LTO_CFLAGS are for compiling its objects, LTO_LDFLAGS for linking libhvd. All else links the same objects
# without that, by NO_LTO_LDFLAGS. Not with sanitizers, whose reports must name functions as they were written.
AC_DEFUN([HVD_LTO],
[AC_ARG_ENABLE([lto], [AS_HELP_STRING([--disable-lto], [do not optimise libhvd as a whole])], [],
  [enable_lto=check])
AS_IF([test "x$enable_lto" = xcheck && test "x$enable_sanitizers" != xno], [enable_lto=no])
hvd_lto=no
AS_IF([test "x$enable_lto" != xno],
  [hvd_saved_CFLAGS=$CFLAGS
   CFLAGS="$CFLAGS -flto=auto -ffat-lto-objects -Werror"
   AC_MSG_CHECKING([whether $CC optimises a library as a whole])
   AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [hvd_lto=yes])
   AC_MSG_RESULT([$hvd_lto])
   CFLAGS=$hvd_saved_CFLAGS
   AS_IF([test "x$enable_lto$hvd_lto" = xyesno],
     [AC_MSG_ERROR([--enable-lto: $CC does not take -flto=auto -ffat-lto-objects; leave it out, or compile with gcc])])])
AS_IF([test "x$hvd_lto" = xyes],
  [AC_SUBST([LTO_CFLAGS], ["-flto=auto -ffat-lto-objects"])
   AC_SUBST([LTO_LDFLAGS], [-flto=auto])
   AC_SUBST([NO_LTO_LDFLAGS], ["-Xcompiler -fno-lto"])])])

# HVD_TARGETS
# -----------
# The kinds of processors that core/backend/arith/kernels.c is compiled for, besides the one that CFLAGS name. For each
# that the compiler supports there are TARGET_AVX2 and AVX2_CFLAGS, and so on. Which one runs is decided at run time.
AC_DEFUN([HVD_TARGETS],
[HVD_TARGET([avx512], [AVX512], [avx512vbmi2],
  [-mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c -mprefer-vector-width=512])
HVD_TARGET([avx2], [AVX2], [avx2], [-mavx2 -mf16c])])

# HVD_TARGET(NAME, MACRO, FEATURE THAT THE PROCESSOR MUST HAVE, FLAGS)
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
  [AC_DEFINE([HAVE_TARGET_$2], [1], [Define to 1 where core/backend/arith/kernels.c is compiled for $1, too.])
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
    Python      $PYTHON_FOUND
    LTO         $hvd_lto
    unit tests  $enable_tests
    sanitizers  $enable_sanitizers
    install to  $prefix])])
