/* nccl_choice.c: what NCCL carries, and which factors it applies. Pure. */
#include "backend/nccl/nccl.h"

#include "base/dtype.h"

static bool reduces_dtype(enum hvd_dtype dtype, const struct nccl_use *use)
{
    if (dtype_is_float8(dtype))
        return use->float8;
    return dtype_is_real(dtype) || dtype == HVD_UINT8 || dtype == HVD_INT8 || dtype == HVD_INT32 ||
           dtype == HVD_INT64;
}

bool nccl_carries(const struct nccl_use *use, const struct backend_need *need, double prescale,
                  double postscale)
{
    if (!use->possible)
        return false;
    if (!coll_reduces(need->kind))
        return true;
    if (!reduces_dtype(need->dtype, use) || op_is_bitwise(need->op))
        return false;
    return dtype_is_real(need->dtype) || (need->op != HVD_AVERAGE && prescale == 1 && postscale == 1);
}

/* Is [factor] a power of two, which all real types hold exactly? */
static bool is_power_of_two(double factor)
{
    const double least = 1.0 / 16384;
    double power = least;
    while (power < factor && power < 16384)
        power *= 2;
    return power == factor;
}

/* NCCL multiplies each input by the factor before it adds, in the tensors' type. For half types that must be
 * a power of two: another one, such as that of an average of three ranks, is rounded to 8 or 11 bits, and so
 * is each product. ncclAvg does no better: for real types it is a sum with the factor 1 / ranks, rounded like
 * that. A float8 has too few bits even for powers of two: a half of the smallest one is 0. */
bool nccl_scales(const struct backend_need *need, double prescale, double postscale)
{
    bool sums = need->op == HVD_SUM || need->op == HVD_AVERAGE;
    double factor = prescale * postscale / (need->op == HVD_AVERAGE ? need->ranks : 1);
    if (!coll_reduces(need->kind) || (prescale == 1 && postscale == 1 && need->op != HVD_AVERAGE))
        return true;
    if (!sums || dtype_is_float8(need->dtype))
        return false;
    return need->dtype == HVD_FLOAT32 || need->dtype == HVD_FLOAT64 || is_power_of_two(factor);
}

/* backend_table needs a row for each backend. NCCL is none of those that flow opens for memory of the host.
 */
static bool nccl_available(const struct backend_env *env, const char **whyp)
{
    (void)env;
    *whyp = "it carries tensors on GPUs only";
    return false;
}

static bool nccl_supports(const struct backend_need *need)
{
    const struct nccl_use use = {.possible = true};
    return nccl_carries(&use, need, 1, 1);
}

const struct backend_ops backend_nccl = {
    .id = BACKEND_NCCL, .available = nccl_available, .supports = nccl_supports};
