/* map_chips.c: the GPUs and NICs of a map's picture, below their PCI bridges. */
#include "config.h"
#include "tools/hvdinfo/map_picture.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define CHIP_HEIGHT    46
#define CHIP_GAP       5
#define GROUP_GAP      12 /* between chips of different host bridges */
#define LEVEL          12 /* from one row of bridges to the next */
#define BAR            6  /* from the cores to the bar that connects the host bridges */
#define ROW_HEAD       18 /* from the cores to the first row of bridges */
#define ROW_GAP        6
#define MOST_IDLE      3 /* unused cards in a row that are still drawn one by one */
#define CHIP_WIDTH     52
#define CHIP_WIDTH_MAX 92

/* ---- Make ---- */

static const struct pci_device *pci_of(const struct picture *picture, const struct chip *chip)
{
    return chip->is_gpu ? &picture->machine->gpus[chip->index].pci : &picture->machine->nics[chip->index].pci;
}

static const struct task_use *use_of(const struct picture *picture, const struct chip *chip)
{
    return chip->is_gpu ? &picture->gpus[chip->index] : &picture->nics[chip->index];
}

/* Leave out PCI domain 0000. */
static const char *id_of(const struct pci_device *pci)
{
    return strncmp(pci->id, "0000:", 5) == 0 ? pci->id + 5 : pci->id;
}

static void label_of(const struct picture *picture, const struct chip *chip, char *text, size_t text_bytes)
{
    if (chip->is_gpu)
        snprintf(text, text_bytes, "GPU %d", chip->index);
    else if (chip->more > 0)
        snprintf(text, text_bytes, "%d NICs", chip->more + 1);
    else if (nic_name(&picture->machine->nics[chip->index]) == pci_of(picture, chip)->id)
        snprintf(text, text_bytes, "NIC");
    else
        snprintf(text, text_bytes, "%s", nic_name(&picture->machine->nics[chip->index]));
}

/* Order by box, then by PCI id; devices that are not on PCI come last. */
static int compare_chips(const void *a, const void *b, void *context)
{
    const struct chip *left = a, *right = b;
    const struct picture *picture = context;
    const char *left_id = pci_of(picture, left)->id, *right_id = pci_of(picture, right)->id;
    if (left->box != right->box)
        return left->box - right->box;
    int order = (left_id[0] == 0) - (right_id[0] == 0);
    if (order == 0)
        order = strcmp(left_id, right_id);
    return order != 0 ? order : left->index - right->index;
}

/* Whether [chip], the next in the machine's order, can be merged with [from]. */
static bool merges(const struct picture *picture, const struct chip *from, const struct chip *chip)
{
    const struct pci_device *a = pci_of(picture, from), *b = pci_of(picture, chip);
    return from->box == chip->box && !from->is_gpu && !chip->is_gpu && use_of(picture, from)->count == 0 &&
           use_of(picture, chip)->count == 0 && chip->index == from->index + 1 + from->more &&
           a->bridge_count == b->bridge_count &&
           memcmp(a->bridges, b->bridges, (size_t)a->bridge_count * sizeof(a->bridges[0])) == 0;
}

/* Merge many unused cards of one place, such as the virtual functions of a card, into one chip. */
static void merge(struct picture *picture)
{
    int kept = 0;
    for (int i = 0; i < picture->chip_count;) {
        struct chip chip = picture->chips[i];
        int end = i + 1;
        while (end < picture->chip_count && merges(picture, &chip, &picture->chips[end])) {
            chip.more++;
            end++;
        }
        if (chip.more < MOST_IDLE) {
            chip = picture->chips[i];
            end = i + 1;
        }
        picture->chips[kept++] = chip;
        i = end;
    }
    picture->chip_count = kept;
}

int chips_make(struct picture *picture, struct hvd_error *err)
{
    const struct machine *machine = picture->machine;
    char name[NIC_VERBS_BYTES];
    picture->chips = calloc((size_t)(machine->gpu_count + machine->nic_count) + 1, sizeof(*picture->chips));
    if (picture->chips == NULL)
        return error_set(err, HVD_ERR_NO_MEMORY, "no memory to draw %d devices",
                         machine->gpu_count + machine->nic_count);
    for (int i = 0; i < machine->gpu_count; i++)
        picture->chips[picture->chip_count++] =
            (struct chip){boxes_find(picture, &machine->gpus[i].pci.cpus), true, i, 0};
    for (int i = 0; i < machine->nic_count; i++)
        picture->chips[picture->chip_count++] =
            (struct chip){boxes_find(picture, &machine->nics[i].pci.cpus), false, i, 0};
    qsort_r(picture->chips, (size_t)picture->chip_count, sizeof(*picture->chips), compare_chips, picture);
    merge(picture);
    picture->chip_width = CHIP_WIDTH;
    for (int i = 0; i < picture->chip_count; i++) {
        const struct chip *chip = &picture->chips[i];
        struct box *box = &picture->boxes[chip->box];
        int name_width, id_width = text_width(id_of(pci_of(picture, chip)), STYLE_ID);
        label_of(picture, chip, name, sizeof(name));
        name_width = text_width(name, STYLE_NAME);
        if ((name_width > id_width ? name_width : id_width) + 4 > picture->chip_width)
            picture->chip_width = (name_width > id_width ? name_width : id_width) + 4;
        box->chip = box->chips++ == 0 ? i : box->chip;
    }
    if (picture->chip_width > CHIP_WIDTH_MAX)
        picture->chip_width = CHIP_WIDTH_MAX;
    return HVD_OK;
}

/* ---- The tree of bridges ---- */

/* A range of adjacent chips. */
struct chip_range {
    int from, end;
};

static int bridge(const struct picture *picture, int chip, int depth)
{
    const struct pci_device *pci = pci_of(picture, &picture->chips[chip]);
    return depth < pci->bridge_count ? pci->bridges[depth] : -1;
}

/* The number of bridges, from the outermost, that all of them share. */
static int common_bridges(const struct picture *picture, struct chip_range run)
{
    int depth = 0;
    for (;; depth++)
        for (int i = run.from; i < run.end; i++)
            if (bridge(picture, i, depth) < 0 ||
                bridge(picture, i, depth) != bridge(picture, run.from, depth))
                return depth;
}

/* The first chips of [run] that are below the same bridge at that depth; one chip if it has no bridge there.
 */
static struct chip_range first_below(const struct picture *picture, struct chip_range run, int depth)
{
    int at = bridge(picture, run.from, depth);
    int end = run.from + 1;
    while (at >= 0 && end < run.end && bridge(picture, end, depth) == at)
        end++;
    return (struct chip_range){run.from, end};
}

/* The number of rows of bridges that branch. */
static int levels_of(const struct picture *picture, struct chip_range run)
{
    int most = 0;
    if (run.end - run.from == 1)
        return 0;
    int depth = common_bridges(picture, run);
    for (struct chip_range part = {run.from, run.from}; part.end < run.end;) {
        part = first_below(picture, (struct chip_range){part.end, run.end}, depth);
        int levels = levels_of(picture, part);
        most = levels > most ? levels : most;
    }
    return most + 1;
}

/* ---- Measure ---- */

static int run_width(const struct picture *picture, struct chip_range run)
{
    return (run.end - run.from) * (picture->chip_width + CHIP_GAP) - CHIP_GAP;
}

/* The chips that fit into the next row of [width], host bridge by host bridge. Stores the row's width in
 * *usedp. */
static struct chip_range next_row(const struct picture *picture, struct chip_range rest, int width,
                                  int *usedp)
{
    struct chip_range row = {rest.from, rest.from};
    *usedp = 0;
    while (row.end < rest.end) {
        struct chip_range group = first_below(picture, (struct chip_range){row.end, rest.end}, 0);
        int wanted = *usedp + (*usedp > 0 ? GROUP_GAP : 0) + run_width(picture, group);
        if (*usedp > 0 && wanted > width)
            break;
        *usedp = wanted;
        row.end = group.end;
    }
    return row;
}

static int row_height(const struct picture *picture, struct chip_range row)
{
    int most = 0;
    for (struct chip_range group = {row.from, row.from}; group.end < row.end;) {
        group = first_below(picture, (struct chip_range){group.end, row.end}, 0);
        int levels = levels_of(picture, group);
        most = levels > most ? levels : most;
    }
    return ROW_HEAD + most * LEVEL + CHIP_HEIGHT + ROW_GAP;
}

/* Prefer one row if it is not much wider. */
int chips_width(const struct picture *picture, const struct box *box, int width)
{
    int widest = 0, all;
    struct chip_range run = {box->chip, box->chip + box->chips};
    next_row(picture, run, INT_MAX, &all);
    if (all <= width * 5 / 4)
        return all;
    for (struct chip_range group = {run.from, run.from}; group.end < run.end;) {
        group = first_below(picture, (struct chip_range){group.end, run.end}, 0);
        int wanted = run_width(picture, group);
        widest = wanted > widest ? wanted : widest;
    }
    return widest;
}

int chips_height(const struct picture *picture, const struct box *box, int width)
{
    int height = 0, used;
    for (struct chip_range row = {box->chip, box->chip}; row.end < box->chip + box->chips;) {
        row = next_row(picture, (struct chip_range){row.end, box->chip + box->chips}, width, &used);
        height += row_height(picture, row);
    }
    return height;
}

/* ---- Paint ---- */

static void title_of(const struct picture *picture, const struct chip *chip, char *text, size_t text_bytes)
{
    char name[NIC_VERBS_BYTES], tasks[32];
    const struct task_use *use = use_of(picture, chip);
    const struct nic *nic = &picture->machine->nics[chip->is_gpu ? 0 : chip->index];
    const char *id = pci_of(picture, chip)->id;
    label_of(picture, chip, name, sizeof(name));
    int used = snprintf(text, text_bytes, "%s%s%s", name, id[0] != 0 ? ", " : "", id);
    use_text(use, tasks, sizeof(tasks));
    if (chip->is_gpu)
        used += snprintf(text + used, text_bytes - (size_t)used, ", %s",
                         picture->machine->gpus[chip->index].name);
    else if (chip->more > 0)
        used += snprintf(text + used, text_bytes - (size_t)used, " and on");
    else
        used += snprintf(text + used, text_bytes - (size_t)used, ", %s", nic->why);
    if (use->count > 0)
        snprintf(text + used, text_bytes - (size_t)used, ": task %s", tasks);
}

static void paint_chip(const struct picture *picture, const struct chip *chip, int x, int y)
{
    char text[384], tasks[32];
    const struct task_use *use = use_of(picture, chip);
    struct area area = {x, y, picture->chip_width, CHIP_HEIGHT, chip->is_gpu ? 2 : 10};
    bool dropped = !chip->is_gpu && picture->machine->nics[chip->index].exclusion != NIC_NOT_EXCLUDED;
    int middle = x + area.width / 2;
    title_of(picture, chip, text, sizeof(text));
    paint_group(picture->file, use, text);
    paint_use(picture->file, &area, use, dropped ? "barred" : "idle");
    label_of(picture, chip, text, sizeof(text));
    fit_text(text, STYLE_NAME, area.width);
    paint_text(picture->file, STYLE_NAME, middle, y + 15, "%s", text);
    snprintf(text, sizeof(text), "%s", id_of(pci_of(picture, chip)));
    fit_text(text, STYLE_ID, area.width);
    paint_text(picture->file, STYLE_ID, middle, y + 27, "%s", text);
    use_text(use, tasks, sizeof(tasks));
    if (use->count == 0)
        snprintf(text, sizeof(text), "unused");
    else if (tasks[0] == 'x')
        snprintf(text, sizeof(text), "%d tasks", use->count);
    else
        snprintf(text, sizeof(text), "task%s %s", use->count > 1 ? "s" : "", tasks);
    if (text_width(text, STYLE_ID) > area.width)
        snprintf(text, sizeof(text), "%s", tasks);
    paint_text(picture->file, STYLE_ID, middle, y + 40, "%s", text);
    paint_group_end(picture->file);
}

struct point {
    int x, y;
};

/* Whether they are functions of one card. */
static bool is_card(const struct picture *picture, struct chip_range run)
{
    const char *first = pci_of(picture, &picture->chips[run.from])->id;
    size_t device = strcspn(first, ".");
    for (int i = run.from; i < run.end; i++)
        if (strncmp(pci_of(picture, &picture->chips[i])->id, first, device) != 0)
            return false;
    return true;
}

/* A bridge that branches: a bar at [top] from its first child to its last. */
static void paint_bar(const struct picture *picture, struct chip_range run, int first, int last, int top)
{
    fprintf(picture->file, "<path class=\"wire\" d=\"M%d %dH%d\"/>\n", first, top, last);
    if (common_bridges(picture, run) < 2 || is_card(picture, run))
        return;
    fprintf(picture->file, "<rect class=\"joint\" x=\"%d\" y=\"%d\" width=\"8\" height=\"8\"/>\n",
            (first + last) / 2 - 4, top - 4);
    if ((last - first) / 2 >= text_width("PCI switch", STYLE_SMALL) + 8)
        paint_text(picture->file, STYLE_SMALL, last, top - 3, "PCI switch");
}

/* Paint the chips, the first one at [at], and the bridges above them. Returns the position of the uppermost
 * bridge. */
static struct point paint_tree(const struct picture *picture, struct chip_range run, struct point at)
{
    int top = at.y - LEVEL * levels_of(picture, run);
    int first = 0, last = 0;
    if (run.end - run.from == 1) {
        paint_chip(picture, &picture->chips[run.from], at.x, at.y);
        return (struct point){at.x + picture->chip_width / 2, at.y};
    }
    int depth = common_bridges(picture, run);
    for (struct chip_range part = {run.from, run.from}; part.end < run.end;) {
        part = first_below(picture, (struct chip_range){part.end, run.end}, depth);
        struct point below = paint_tree(picture, part, at);
        fprintf(picture->file, "<path class=\"wire\" d=\"M%d %dV%d\"/>\n", below.x, below.y, top);
        first = part.from == run.from ? below.x : first;
        last = below.x;
        at.x += run_width(picture, part) + CHIP_GAP;
    }
    paint_bar(picture, run, first, last, top);
    return (struct point){(first + last) / 2, top};
}

/* Connect all host bridges of a row by one bar, which starts at the frame of their box. */
static void paint_row(const struct picture *picture, struct chip_range row, const struct box *box,
                      struct point at)
{
    int chip_y = at.y + row_height(picture, row) - ROW_GAP - CHIP_HEIGHT;
    int first = box->level < 0 ? -1 : box->x, last = 0;
    for (struct chip_range group = {row.from, row.from}; group.end < row.end;) {
        group = first_below(picture, (struct chip_range){group.end, row.end}, 0);
        struct point top = paint_tree(picture, group, (struct point){at.x, chip_y});
        fprintf(picture->file, "<path class=\"wire\" d=\"M%d %dV%d\"/>\n", top.x, top.y, at.y + BAR);
        at.x += run_width(picture, group) + GROUP_GAP;
        first = first < 0 ? top.x : first;
        last = top.x;
    }
    fprintf(picture->file, "<path class=\"wire\" d=\"M%d %dH%d\"/>\n", first, at.y + BAR, last);
}

void chips_paint(const struct picture *picture, const struct box *box, const struct area *area)
{
    struct point at = {area->x, area->y};
    int used;
    for (struct chip_range row = {box->chip, box->chip}; row.end < box->chip + box->chips;) {
        row = next_row(picture, (struct chip_range){row.end, box->chip + box->chips}, area->width, &used);
        at.x = area->x + (area->width - used) / 2;
        paint_row(picture, row, box, at);
        at.y += row_height(picture, row);
    }
}
