/* option_type.h: the types of options, for rows of the option table. */
#ifndef OPTIONS_OPTION_TYPE_H
#define OPTIONS_OPTION_TYPE_H

#include "options/config.h"

extern const struct option_type option_size;   /* int64_t, in bytes */
extern const struct option_type option_time;   /* int64_t, in microseconds */
extern const struct option_type option_number; /* int64_t, in the unit that the option counts */
extern const struct option_type option_switch; /* bool */
extern const struct option_type option_choice; /* int, see choice_values */
extern const struct option_type option_list;   /* uint64_t, see option_list_choice */
extern const struct option_type option_file;   /* option_text */
extern const struct option_type option_folder; /* option_text */
extern const struct option_type option_nics;   /* option_text for nic_filter_parse */
extern const struct option_type option_bind;   /* struct bind_options */
extern const struct option_type option_rs;     /* struct rs_options */

/* The type and the field of a row, such as OPTION_TYPE(size, fusion_bytes). It does not compile if the
 * field's C type is not the one that holds values of that type. */
#define OPTION_TYPE(name, field) .type = &option_##name, .offset = OPTION_FIELD(OPTION_C_TYPE_##name, field)

/* clang-format off */
#define OPTION_FIELD(c_type, field) \
    _Generic(&((struct hvd_config *)0)->field, c_type *: offsetof(struct hvd_config, field))
/* clang-format on */

#define OPTION_C_TYPE_size   int64_t
#define OPTION_C_TYPE_time   int64_t
#define OPTION_C_TYPE_number int64_t
#define OPTION_C_TYPE_switch bool
#define OPTION_C_TYPE_choice int
#define OPTION_C_TYPE_list   uint64_t
#define OPTION_C_TYPE_file   option_text
#define OPTION_C_TYPE_folder option_text
#define OPTION_C_TYPE_nics   option_text
#define OPTION_C_TYPE_bind   struct bind_options
#define OPTION_C_TYPE_rs     struct rs_options

#endif
