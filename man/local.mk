# man: manual pages, in mdoc
dist_man_MANS += man/hvd.3 man/hvd.7
dist_man_MANS += man/hvdinfo.1
