// Special registers. Those that the engine does not know have fixed values: see the engine's README.
#include "special.h"

#include "grid.h"

#include "llvm/ADT/StringSwitch.h"

namespace vgc::ptx
{
namespace
{

/// Builtin with a register's value.
llvm::StringRef builtin_of(llvm::StringRef name)
{
    return llvm::StringSwitch<llvm::StringRef>(name)
        .Case("tid.x", "__vgc_tid_x")
        .Case("tid.y", "__vgc_tid_y")
        .Case("tid.z", "__vgc_tid_z")
        .Case("ntid.x", "__vgc_ntid_x")
        .Case("ntid.y", "__vgc_ntid_y")
        .Case("ntid.z", "__vgc_ntid_z")
        .Case("ctaid.x", "__vgc_ctaid_x")
        .Case("ctaid.y", "__vgc_ctaid_y")
        .Case("ctaid.z", "__vgc_ctaid_z")
        .Case("nctaid.x", "__vgc_nctaid_x")
        .Case("nctaid.y", "__vgc_nctaid_y")
        .Case("nctaid.z", "__vgc_nctaid_z")
        .Case("clusterid.x", "__vgc_clusterid_x")
        .Case("clusterid.y", "__vgc_clusterid_y")
        .Case("clusterid.z", "__vgc_clusterid_z")
        .Case("nclusterid.x", "__vgc_nclusterid_x")
        .Case("nclusterid.y", "__vgc_nclusterid_y")
        .Case("nclusterid.z", "__vgc_nclusterid_z")
        .Case("cluster_ctaid.x", "__vgc_cluster_ctaid_x")
        .Case("cluster_ctaid.y", "__vgc_cluster_ctaid_y")
        .Case("cluster_ctaid.z", "__vgc_cluster_ctaid_z")
        .Case("cluster_nctaid.x", "__vgc_cluster_nctaid_x")
        .Case("cluster_nctaid.y", "__vgc_cluster_nctaid_y")
        .Case("cluster_nctaid.z", "__vgc_cluster_nctaid_z")
        .Case("cluster_ctarank", "__vgc_cluster_ctarank")
        .Case("cluster_nctarank", "__vgc_cluster_nctarank")
        .Case("laneid", "__vgc_laneid")
        .Case("warpid", "__vgc_warpid")
        .Case("smid", "__vgc_smid")
        .Case("dynamic_smem_size", "__vgc_dynamic_shared_bytes")
        .Case("total_smem_size", "__vgc_shared_bytes")
        .Case("lanemask_eq", "__vgc_lanemask_eq")
        .Case("lanemask_lt", "__vgc_lanemask_lt")
        .Case("lanemask_le", "__vgc_lanemask_le")
        .Case("lanemask_gt", "__vgc_lanemask_gt")
        .Case("lanemask_ge", "__vgc_lanemask_ge")
        .Case("envreg1", GRID_HIGH)
        .Case("envreg2", GRID_LOW)
        .Default("");
}

/// Value of a register that is the same everywhere; -1 if the name is unknown.
int constant_of(llvm::StringRef name)
{
    unsigned number;
    if (name.consume_front("envreg"))
        return !name.getAsInteger(10, number) && number < 32 ? 0 : -1;
    if (name.consume_front("pm"))
        return !name.getAsInteger(10, number) && number < 8 ? 0 : -1;
    if (name.consume_front("reserved_smem_offset_"))
        return 0;
    return llvm::StringSwitch<int>(name)
        .Cases("tid.w", "ctaid.w", "clusterid.w", "cluster_ctaid.w", 0)
        .Cases("ntid.w", "nctaid.w", "nclusterid.w", "cluster_nctaid.w", 1)
        .Cases("gridid", "current_graph_exec", 0)
        .Case("aggr_smem_size", 0)
        .Case("nsmid", 1024)
        .Default(-1);
}

} // namespace

Special special_named(llvm::StringRef name)
{
    if (const llvm::StringRef builtin = builtin_of(name); !builtin.empty())
        return {Special::BUILTIN, builtin, 0, false};
    if (name == "is_explicit_cluster")
        return {Special::CLUSTERED, "", 0, false};
    if (name == "nwarpid")
        return {Special::WARPS, "", 0, false};
    for (llvm::StringRef clock : {"clock", "clock64", "clock_hi"})
        if (name == clock)
            return {Special::CYCLES, "", 0, name == "clock_hi"};
    for (llvm::StringRef timer : {"globaltimer", "globaltimer_lo", "globaltimer_hi"})
        if (name == timer)
            return {Special::TIMER, "", 0, name == "globaltimer_hi"};
    const int constant = constant_of(name);
    return constant < 0 ? Special{} : Special{Special::CONSTANT, "", unsigned(constant), false};
}

} // namespace vgc::ptx
