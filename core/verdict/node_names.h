/* node_names.h: the names of some nodes as one text, as Slurm writes them: "login1, n[001-512,520]". Pure. */
#ifndef VERDICT_NODE_NAMES_H
#define VERDICT_NODE_NAMES_H

#include <stddef.h>

/* Sort [names], and write them into [text], each once. Where they do not fit it ends in " and N more". */
void node_names_text(const char **names, int count, char *text, size_t text_bytes);

#endif
