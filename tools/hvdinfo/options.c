/* options.c: hvdinfo --options and --man: the options that hvd has, and Horovod's variables. */
#include "config.h"
#include "tools/hvdinfo/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/config.h"
#include "options/horovod.h"
#include "tools/common/launch_events.h"

static void show_horovod(const struct hvd_option *option)
{
    if (option->horovod != NULL && option->horovod_never != NULL)
        printf("    Horovod   %s is not taken: %s\n", option->horovod, option->horovod_never);
    else if (option->horovod != NULL)
        printf("    Horovod   %s\n", option->horovod);
    if (option->horovod_zero != NULL)
        printf("              of its value 0: %s\n", option->horovod_zero);
    if (option->horovod_zero_if != NULL)
        printf("              %s=1 makes it 0\n", option->horovod_zero_if);
}

int hvdinfo_options(void)
{
    char text[300];
    for (int i = 0; i < option_count; i++) {
        const struct hvd_option *option = &option_table[i];
        char variable[64];
        option_env_name(option, variable);
        option_spelling(option, text, sizeof(text));
        printf("%s\n", text);
        if (option->retired != NULL) {
            printf("    retired: %s\n", option->retired);
        } else {
            option_expected(option, text, sizeof(text));
            printf("    %s\n    expected  %s\n    default   %s\n", option->help, text,
                   option->def[0] != 0 ? option->def : "none");
        }
        printf("    variable  %s\n", variable);
        show_horovod(option);
    }
    puts("\nOther variables of Horovod, which set no option of hvd:");
    for (int i = 0; i < horovod_variable_count; i++)
        if (horovod_variables[i].answer != NULL)
            printf("    %s\n        %s\n", horovod_variables[i].name, horovod_variables[i].answer);
    return EXIT_SUCCESS;
}

/* Print a sentence as mdoc text: capitalised, with a full stop, and with mdoc's special characters escaped.
 */
static void print_sentence(const char *text)
{
    putchar(text[0] >= 'a' && text[0] <= 'z' ? text[0] - 'a' + 'A' : text[0]);
    for (const char *at = text + 1; *at != 0; at++) {
        if (*at == '\\')
            fputs("\\e", stdout);
        else
            putchar(*at);
    }
    puts(".");
}

int hvdinfo_man(void)
{
    char expected[300];
    char text[400];
    puts(".Bl -tag -width Ds");
    for (int i = 0; i < option_count; i++) {
        const struct hvd_option *option = &option_table[i];
        char variable[64];
        if (option->retired != NULL)
            continue;
        option_env_name(option, variable);
        printf(".It Fl -hvd-%s Ns %s= Ns Ar %s\n", option->name, option->type->bare != NULL ? "Op Ns " : "",
               option->arg);
        print_sentence(option->help);
        option_expected(option, expected, sizeof(expected));
        snprintf(text, sizeof(text), "expected: %s", expected);
        print_sentence(text);
        if (option->def[0] != 0)
            printf("The default is\n.Cm %s .\n", option->def);
        printf("In the environment:\n.Ev %s", variable);
        if (option->horovod != NULL && option->horovod_never == NULL)
            printf(",\nor\n.Ev %s", option->horovod);
        puts(" .");
        if (option->horovod_zero != NULL) {
            printf(".Ev %s Ns =0 :\n", option->horovod);
            print_sentence(option->horovod_zero);
        }
        if (option->horovod_zero_if != NULL)
            printf(".Ev %s Ns =1\nmakes it 0.\n", option->horovod_zero_if);
    }
    puts(".El");
    return EXIT_SUCCESS;
}

int hvdinfo_man_horovod(void)
{
    puts(".Bl -tag -width Ds");
    for (int i = 0; i < horovod_variable_count; i++) {
        if (horovod_variables[i].answer == NULL)
            continue;
        printf(".It Ev %s\n", horovod_variables[i].name);
        print_sentence(horovod_variables[i].answer);
    }
    puts(".El");
    return EXIT_SUCCESS;
}

int hvdinfo_man_events(void)
{
    launch_events_man(stdout);
    return EXIT_SUCCESS;
}
