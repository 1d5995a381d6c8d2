/* team.c: how the members of a team lie on nodes. */
#include "backend/team.h"

#include <stddef.h>

int team_node_end(const int *node_of_rank, const struct team *team, int first)
{
    int end = first + 1;
    while (end < team->size && node_of_rank[team->ranks[end]] == node_of_rank[team->ranks[first]])
        end++;
    return end;
}

/* Is a member before [first] on its node? [highest] is the highest of the nodes before it. */
static bool is_revisited(const int *node_of_rank, const struct team *team, int first, int highest)
{
    int node = node_of_rank[team->ranks[first]];
    bool back = false;
    for (int i = 0; i < first && node <= highest && !back; i++)
        back = node_of_rank[team->ranks[i]] == node;
    return back;
}

bool team_spans_nodes(const int *node_of_rank, const struct team *team, const char **whyp)
{
    int count = 0;
    int highest = -1;
    bool shared = false;
    for (int first = 0, end = 0; first < team->size; first = end) {
        int node = node_of_rank[team->ranks[first]];
        if (is_revisited(node_of_rank, team, first, highest)) {
            *whyp = "ranks of other nodes are between those of a node";
            return false;
        }
        end = team_node_end(node_of_rank, team, first);
        highest = node > highest ? node : highest;
        shared = shared || end - first > 1;
        count++;
    }
    *whyp = count < 2 ? "the ranks are on one node" : "each rank is on a node of its own";
    return count > 1 && shared;
}

int team_ppn(const int *node_of_rank, const struct team *team)
{
    const char *why = NULL;
    int ppn = team_node_end(node_of_rank, team, 0);
    bool even = team_spans_nodes(node_of_rank, team, &why);
    for (int first = 0; first < team->size && even; first += ppn)
        even = team_node_end(node_of_rank, team, first) == first + ppn;
    return even ? ppn : 0;
}
