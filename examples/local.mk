# examples: filled in by what follows
