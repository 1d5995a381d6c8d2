# man: manual pages, in mdoc
