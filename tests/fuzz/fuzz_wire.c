/* fuzz_wire.c: records of the negotiation from hostile bytes: what is accepted is written back as it was. */
#include <assert.h>
#include <string.h>

#include "negotiate/wire.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct wire_reader reader = {{bytes, length, false}, 100};
    struct wire_record record;
    struct hvd_error err;
    const unsigned char *from = reader.decoder.at;
    while (wire_get(&reader, &record, &err) == HVD_OK) {
        struct wire_writer writer = {0};
        wire_put(&writer, &record);
        assert(writer.length == (size_t)(reader.decoder.at - from));
        assert(memcmp(writer.bytes, from, writer.length) == 0);
        from = reader.decoder.at;
        wire_free(&writer);
        wire_clear(&record);
    }
    return 0;
}
