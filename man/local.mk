# man: filled in by what follows
