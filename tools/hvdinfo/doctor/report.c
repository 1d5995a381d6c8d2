/* report.c: print what hvdinfo doctor found. */
#include "tools/hvdinfo/doctor/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/json.h"
#include "tools/hvdinfo/doctor/job.h"
#include "trace/strbuf.h"
#include "verdict/node_names.h"

#define NAMES_BYTES 512 /* of the nodes of a group */

static const char *const results[] = {[CHECK_OK] = "ok", [CHECK_WARN] = "warn", [CHECK_FAIL] = "fail"};

static const char *check_name(int check)
{
    return check < node_check_count                     ? node_checks[check].name
           : check < node_check_count + job_check_count ? job_checks[check - node_check_count].name
                                                        : "start";
}

/* Answers of one group are the same but for their ranks and hosts. */
static int compare_groups(const struct answer *a, const struct answer *b)
{
    int order = a->check - b->check;
    order = order != 0 ? order : a->finding.result - b->finding.result;
    order = order != 0 ? order : strcmp(a->finding.what, b->finding.what);
    return order != 0 ? order : strcmp(a->finding.mend, b->finding.mend);
}

static int compare_answers(const void *left, const void *right)
{
    const struct answer *a = left, *b = right;
    int order = compare_groups(a, b);
    return order != 0 ? order : strcmp(a->host, b->host);
}

static bool is_new_host(const struct answer *group, int i)
{
    return i == 0 || strcmp(group[i].host, group[i - 1].host) != 0;
}

/* " (n1, n[3-512])" */
static void add_hosts(struct strbuf *text, const struct answer *group, int size)
{
    char names[NAMES_BYTES] = "";
    const char **hosts = calloc((size_t)size, sizeof(*hosts));
    for (int i = 0; i < size && hosts != NULL; i++)
        hosts[i] = group[i].host;
    if (hosts != NULL)
        node_names_text(hosts, size, names, sizeof(names));
    free(hosts);
    strbuf_add_text(text, " (");
    strbuf_add_printable(text, names);
    strbuf_add_text(text, ")");
}

static void add_line(struct strbuf *text, const struct answer *group, int size, bool all)
{
    const struct finding *finding = &group->finding;
    strbuf_add_text(text, results[finding->result]);
    strbuf_pad_to(text, 0, 5);
    strbuf_add_text(text, check_name(group->check));
    strbuf_add_text(text, ": ");
    strbuf_add_printable(text, finding->what);
    if (!all)
        add_hosts(text, group, size);
    if (finding->mend[0] != 0) {
        strbuf_add_text(text, ": ");
        strbuf_add_printable(text, finding->mend);
    }
    strbuf_add_text(text, "\n");
}

static void show_object(const struct answer *group, int size)
{
    putchar(' ');
    struct json json = json_open(stdout);
    json_text(&json, "check", check_name(group->check));
    json_text(&json, "result", results[group->finding.result]);
    json_text(&json, "what", group->finding.what);
    json_text(&json, "mend", group->finding.mend);
    json_open_array(&json, "hosts");
    for (int i = 0; i < size; i++)
        if (is_new_host(group, i))
            json_add_text(&json, i, group[i].host);
    json_close_array(&json);
    json_close(&json);
}

static void show_line(const struct answer *group, int size, bool all, bool one_of_many)
{
    char line[2560] = "";
    struct strbuf text = {.bytes = line, .capacity = sizeof(line)};
    if (one_of_many) {
        strbuf_add_printable(&text, group->host);
        strbuf_add_text(&text, ": ");
    }
    add_line(&text, group, size, all || one_of_many);
    fwrite(line, 1, text.used, stdout);
}

bool report_answers(struct answer *answers, int count, enum report_form form)
{
    bool good = true, json = form == REPORT_JSON;
    int size = 0;
    qsort(answers, (size_t)count, sizeof(*answers), compare_answers);
    fputs(json ? "[\n" : "", stdout);
    for (int i = 0; i < count; i += size) {
        for (size = 1; i + size < count && compare_groups(&answers[i], &answers[i + size]) == 0;)
            size++;
        bool first = i == 0 || answers[i - 1].check != answers[i].check;
        bool last = i + size == count || answers[i + size].check != answers[i].check;
        good = good && answers[i].finding.result != CHECK_FAIL;
        if (!json)
            show_line(&answers[i], size, first && last, form == REPORT_ONE_OF_MANY);
        else
            show_object(&answers[i], size);
        fputs(!json ? "" : i + size < count ? ",\n" : "\n]\n", stdout);
    }
    return good;
}
