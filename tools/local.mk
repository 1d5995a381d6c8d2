# tools: filled in by what follows
