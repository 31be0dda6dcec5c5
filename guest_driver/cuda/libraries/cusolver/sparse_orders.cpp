/* Orders of a symmetric pattern: reverse Cuthill-McKee, and minimum degree on the graph of what is left. */
#include <queue>
#include <set>

#include "sparse.h"

namespace sparse
{
namespace
{
/* Neighbours in the graph of A + A^T, in ascending order. */
std::vector<Indices> graph_of(const Pattern &pattern)
{
    std::vector<Indices> made(pattern.rows);
    for (int i = 0; i < pattern.rows; i++)
        for (int at = pattern.offsets[i]; at < pattern.offsets[i + 1]; at++)
            if (const int j = pattern.columns[at]; j != i) {
                made[i].push_back(j);
                made[j].push_back(i);
            }
    for (Indices &others : made) {
        std::sort(others.begin(), others.end());
        others.erase(std::unique(others.begin(), others.end()), others.end());
    }
    return made;
}
/* The part of the graph that hangs together with `first`, breadth first, of few neighbours first. */
Indices breadth_first(const std::vector<Indices> &graph, int first, std::vector<bool> &seen, int &depth)
{
    Indices order{first};
    std::vector<int> depths{0};
    seen[first] = true;
    for (size_t at = 0; at < order.size(); at++) {
        const size_t begin = order.size();
        for (int other : graph[order[at]])
            if (!seen[other]) {
                seen[other] = true;
                order.push_back(other);
                depths.push_back(depths[at] + 1);
            }
        std::sort(order.begin() + begin, order.end(),
                  [&](int p, int q) { return std::pair(graph[p].size(), p) < std::pair(graph[q].size(), q); });
    }
    depth = depths.back();
    return order;
}
/* A vertex at the end of a long path. */
int far_end(const std::vector<Indices> &graph, int first, const std::vector<bool> &taken)
{
    for (int longest = -1;;) {
        std::vector<bool> seen = taken;
        int depth;
        const Indices order = breadth_first(graph, first, seen, depth);
        if (depth <= longest)
            return first;
        longest = depth;
        first = order.back();
    }
}
} // namespace

Indices reverse_cuthill_mckee(const Pattern &pattern)
{
    const std::vector<Indices> graph = graph_of(pattern);
    std::vector<bool> seen(pattern.rows);
    Indices order;
    for (int i = 0; i < pattern.rows; i++)
        if (!seen[i]) {
            int depth;
            const Indices part = breadth_first(graph, far_end(graph, i, seen), seen, depth);
            order.insert(order.end(), part.begin(), part.end());
        }
    std::reverse(order.begin(), order.end());
    return order;
}
Indices minimum_degree(const Pattern &pattern)
{
    std::vector<Indices> graph = graph_of(pattern);
    std::set<std::pair<size_t, int>> left;
    for (int i = 0; i < pattern.rows; i++)
        left.insert({graph[i].size(), i});
    Indices order, joined;
    while (!left.empty()) {
        const int chosen = left.begin()->second;
        left.erase(left.begin());
        order.push_back(chosen);
        for (int other : graph[chosen]) { /* its neighbours become neighbours of each other */
            Indices &own = graph[other];
            left.erase({own.size(), other});
            joined.clear();
            std::set_union(own.begin(), own.end(), graph[chosen].begin(), graph[chosen].end(),
                           std::back_inserter(joined));
            joined.erase(std::remove_if(joined.begin(), joined.end(), [&](int v) { return v == chosen || v == other; }),
                         joined.end());
            own = joined;
            left.insert({own.size(), other});
        }
        Indices().swap(graph[chosen]);
    }
    return order;
}
} // namespace sparse
