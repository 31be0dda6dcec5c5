// Special registers. Those that the engine does not know have fixed values: see the engine's README.
#include "special.h"

#include "llvm/ADT/StringSwitch.h"

namespace vgc::ptx
{
namespace
{

/// Builtin with a register's value. Each block is a cluster of its own.
llvm::StringRef builtin_of(llvm::StringRef name)
{
    return llvm::StringSwitch<llvm::StringRef>(name)
        .Case("tid.x", "__vgc_tid_x")
        .Case("tid.y", "__vgc_tid_y")
        .Case("tid.z", "__vgc_tid_z")
        .Case("ntid.x", "__vgc_ntid_x")
        .Case("ntid.y", "__vgc_ntid_y")
        .Case("ntid.z", "__vgc_ntid_z")
        .Cases("ctaid.x", "clusterid.x", "__vgc_ctaid_x")
        .Cases("ctaid.y", "clusterid.y", "__vgc_ctaid_y")
        .Cases("ctaid.z", "clusterid.z", "__vgc_ctaid_z")
        .Cases("nctaid.x", "nclusterid.x", "__vgc_nctaid_x")
        .Cases("nctaid.y", "nclusterid.y", "__vgc_nctaid_y")
        .Cases("nctaid.z", "nclusterid.z", "__vgc_nctaid_z")
        .Case("laneid", "__vgc_laneid")
        .Case("warpid", "__vgc_warpid")
        .Case("smid", "__vgc_smid")
        .Case("lanemask_eq", "__vgc_lanemask_eq")
        .Case("lanemask_lt", "__vgc_lanemask_lt")
        .Case("lanemask_le", "__vgc_lanemask_le")
        .Case("lanemask_gt", "__vgc_lanemask_gt")
        .Case("lanemask_ge", "__vgc_lanemask_ge")
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
        .Cases("cluster_ctaid.x", "cluster_ctaid.y", "cluster_ctaid.z", "cluster_ctarank", 0)
        .Cases("cluster_nctaid.x", "cluster_nctaid.y", "cluster_nctaid.z", "cluster_nctarank", 1)
        .Cases("gridid", "is_explicit_cluster", "current_graph_exec", 0)
        .Cases("dynamic_smem_size", "total_smem_size", "aggr_smem_size", 0)
        .Case("nsmid", 1024)
        .Default(-1);
}

} // namespace

Special special_named(llvm::StringRef name)
{
    if (const llvm::StringRef builtin = builtin_of(name); !builtin.empty())
        return {Special::BUILTIN, builtin, 0, false};
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
