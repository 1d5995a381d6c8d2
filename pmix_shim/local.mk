# pmix_shim: filled in by what follows
