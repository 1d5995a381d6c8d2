/* other_version.c: makes the reports of a plug-in those of a newer version, with other words behind the start
 * that all versions have. Linked into a plug-in of its own, with --wrap. */
#include "verdict/failure_report.h"

#define AT_VERSION 4 /* behind the magic number, little-endian */
#define MORE_BYTES 5

size_t __real_failure_report_encode(const struct failure_report *report,
                                    const char token[FAILURE_TOKEN_BYTES],
                                    unsigned char message[FAILURE_REPORT_BYTES]);
size_t __wrap_failure_report_encode(const struct failure_report *report,
                                    const char token[FAILURE_TOKEN_BYTES],
                                    unsigned char message[FAILURE_REPORT_BYTES]);

size_t __wrap_failure_report_encode(const struct failure_report *report,
                                    const char token[FAILURE_TOKEN_BYTES],
                                    unsigned char message[FAILURE_REPORT_BYTES])
{
    size_t length = __real_failure_report_encode(report, token, message);
    message[AT_VERSION]++;
    memset(message + length, 0xff, MORE_BYTES);
    return length + MORE_BYTES;
}
