/* cache_line.h: what cores fetch and pass on as one. What two of them write is kept that far apart. */
#ifndef BASE_CACHE_LINE_H
#define BASE_CACHE_LINE_H

#define CACHE_LINE_BYTES 64

#endif
