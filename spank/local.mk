# spank: filled in by what follows
