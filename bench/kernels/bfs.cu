/* Breadth-first search, level by level: `frontier` marks the nodes of this level, `next` those found for the next one.
 * Nodes' edges are targets[starts[i]] to targets[starts[i + 1] - 1]. */
extern "C" __global__ void bfs_expand(unsigned nodes, const unsigned *__restrict__ starts,
                                      const unsigned *__restrict__ targets, unsigned char *frontier,
                                      const unsigned char *visited, unsigned char *next, int *distance)
{
    unsigned node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes || !frontier[node])
        return;
    frontier[node] = 0;
    for (unsigned edge = starts[node]; edge < starts[node + 1]; edge++) {
        unsigned target = targets[edge];
        if (!visited[target]) {
            distance[target] = distance[node] + 1;
            next[target] = 1;
        }
    }
}

/* Makes the nodes that were found the next frontier. */
extern "C" __global__ void bfs_advance(unsigned nodes, unsigned char *frontier, unsigned char *visited,
                                       unsigned char *next, int *found)
{
    unsigned node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node < nodes && next[node]) {
        frontier[node] = 1;
        visited[node] = 1;
        next[node] = 0;
        *found = 1;
    }
}
