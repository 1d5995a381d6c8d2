/* fuzz_error_file.c: the file in which a rank says what exception ended it; the rank writes what it likes. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "verdict/error_file.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    char text[64];
    error_file_parse((const char *)bytes, length, text, sizeof(text));
    assert(strnlen(text, sizeof(text)) < sizeof(text));
    for (const char *at = text; *at != 0; at++)
        assert((unsigned char)*at >= ' ' && *at != 0x7f); /* nothing that a terminal obeys */
    return 0;
}
