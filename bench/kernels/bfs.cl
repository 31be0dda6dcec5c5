/* Breadth-first search, level by level: `frontier` marks the nodes of this level, `next` those found for the next one.
 * Nodes' edges are targets[starts[i]] to targets[starts[i + 1] - 1]. */
__kernel void bfs_expand(uint nodes, __global const uint *restrict starts,
                         __global const uint *restrict targets, __global uchar *frontier,
                         __global const uchar *visited, __global uchar *next, __global int *distance)
{
    uint node = get_global_id(0);
    if (node >= nodes || !frontier[node])
        return;
    frontier[node] = 0;
    for (uint edge = starts[node]; edge < starts[node + 1]; edge++) {
        uint target = targets[edge];
        if (!visited[target]) {
            distance[target] = distance[node] + 1;
            next[target] = 1;
        }
    }
}

/* Makes the nodes that were found the next frontier. */
__kernel void bfs_advance(uint nodes, __global uchar *frontier, __global uchar *visited, __global uchar *next,
                          __global int *found)
{
    uint node = get_global_id(0);
    if (node < nodes && next[node]) {
        frontier[node] = 1;
        visited[node] = 1;
        next[node] = 0;
        *found = 1;
    }
}
