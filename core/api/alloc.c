/* alloc.c: the calls that give memory to the program and take it back. */
#include "config.h"
#include "api/context.h"

enum hvd_status hvd_alloc(int64_t bytes, void **memoryp)
{
    struct context *context = context_require();
    if (context == NULL)
        return HVD_ERR_STATE;
    return allocations_allocate(context_allocations(), &context->bootstrap.windows, bytes, memoryp,
                                context_error());
}

enum hvd_status hvd_free(void *memory)
{
    static const struct windows none;
    const struct context *context = context_get();
    return allocations_free(context_allocations(), context == NULL ? &none : &context->bootstrap.windows,
                            memory, context_error());
}
