// Position of a thread: threadIdx, blockIdx, blockDim and gridDim as values.
#include "compiler.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/InstIterator.h"

namespace vgc
{
namespace
{

enum Position {
    TID_X,
    TID_Y,
    TID_Z,
    CTAID_X,
    CTAID_Y,
    CTAID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    NCTAID_X,
    NCTAID_Y,
    NCTAID_Z,
    CLUSTER_CTAID_X,
    CLUSTER_CTAID_Y,
    CLUSTER_CTAID_Z,
    CLUSTER_NCTAID_X,
    CLUSTER_NCTAID_Y,
    CLUSTER_NCTAID_Z,
    CLUSTERID_X,
    CLUSTERID_Y,
    CLUSTERID_Z,
    NCLUSTERID_X,
    NCLUSTERID_Y,
    NCLUSTERID_Z,
    CLUSTER_CTARANK,
    CLUSTER_NCTARANK,
    SLOT_BYTES,
    LINEAR,
    LANE,
    WARP,
    SMID,
    SHARED,
    DYNAMIC_SHARED,
    LANEMASK_EQ,
    LANEMASK_LT,
    LANEMASK_LE,
    LANEMASK_GT,
    LANEMASK_GE,
    NONE,
};

Position position_of(llvm::StringRef name)
{
    if (!name.consume_front("__vgc_"))
        return NONE;
    return llvm::StringSwitch<Position>(name)
        .Case("tid_x", TID_X)
        .Case("tid_y", TID_Y)
        .Case("tid_z", TID_Z)
        .Case("ctaid_x", CTAID_X)
        .Case("ctaid_y", CTAID_Y)
        .Case("ctaid_z", CTAID_Z)
        .Case("ntid_x", NTID_X)
        .Case("ntid_y", NTID_Y)
        .Case("ntid_z", NTID_Z)
        .Case("nctaid_x", NCTAID_X)
        .Case("nctaid_y", NCTAID_Y)
        .Case("nctaid_z", NCTAID_Z)
        .Case("cluster_ctaid_x", CLUSTER_CTAID_X)
        .Case("cluster_ctaid_y", CLUSTER_CTAID_Y)
        .Case("cluster_ctaid_z", CLUSTER_CTAID_Z)
        .Case("cluster_nctaid_x", CLUSTER_NCTAID_X)
        .Case("cluster_nctaid_y", CLUSTER_NCTAID_Y)
        .Case("cluster_nctaid_z", CLUSTER_NCTAID_Z)
        .Case("clusterid_x", CLUSTERID_X)
        .Case("clusterid_y", CLUSTERID_Y)
        .Case("clusterid_z", CLUSTERID_Z)
        .Case("nclusterid_x", NCLUSTERID_X)
        .Case("nclusterid_y", NCLUSTERID_Y)
        .Case("nclusterid_z", NCLUSTERID_Z)
        .Case("cluster_ctarank", CLUSTER_CTARANK)
        .Case("cluster_nctarank", CLUSTER_NCTARANK)
        .Case("slot_bytes", SLOT_BYTES)
        .Case("linear_tid", LINEAR)
        .Case("laneid", LANE)
        .Case("warpid", WARP)
        .Case("smid", SMID)
        .Case("shared", SHARED)
        .Case("dynamic_shared", DYNAMIC_SHARED)
        .Case("lanemask_eq", LANEMASK_EQ)
        .Case("lanemask_lt", LANEMASK_LT)
        .Case("lanemask_le", LANEMASK_LE)
        .Case("lanemask_gt", LANEMASK_GT)
        .Case("lanemask_ge", LANEMASK_GE)
        .Default(NONE);
}

/// Mask of the lanes below, at or above a lane (lanemask_lt and the like).
llvm::Value *lane_mask(llvm::IRBuilder<> &builder, Position which, llvm::Value *lane)
{
    llvm::Value *equal = builder.CreateShl(builder.getInt32(1), lane);
    llvm::Value *less = builder.CreateSub(equal, builder.getInt32(1));
    switch (which) {
    case LANEMASK_EQ:
        return equal;
    case LANEMASK_LT:
        return less;
    case LANEMASK_LE:
        return builder.CreateOr(less, equal);
    case LANEMASK_GE:
        return builder.CreateNot(less);
    default:
        return builder.CreateNot(builder.CreateOr(less, equal));
    }
}

/// Position of the block in its cluster, and of the cluster in the grid.
llvm::Value *cluster_value(llvm::IRBuilder<> &builder, Position which, const ThreadView &view)
{
    auto block_in = [&](unsigned axis) { return builder.CreateURem(view.block_idx[axis], view.cluster_dim[axis]); };
    if (which <= CLUSTER_CTAID_Z)
        return block_in(which - CLUSTER_CTAID_X);
    if (which <= CLUSTER_NCTAID_Z)
        return view.cluster_dim[which - CLUSTER_NCTAID_X];
    if (which <= CLUSTERID_Z)
        return builder.CreateUDiv(view.block_idx[which - CLUSTERID_X], view.cluster_dim[which - CLUSTERID_X]);
    if (which <= NCLUSTERID_Z)
        return builder.CreateUDiv(view.grid_dim[which - NCLUSTERID_X], view.cluster_dim[which - NCLUSTERID_X]);
    if (which == SLOT_BYTES)
        return view.slot_bytes;
    llvm::Value *plane = builder.CreateMul(view.cluster_dim[0], view.cluster_dim[1]);
    if (which == CLUSTER_NCTARANK)
        return builder.CreateMul(plane, view.cluster_dim[2]);
    llvm::Value *row = builder.CreateAdd(builder.CreateMul(block_in(1), view.cluster_dim[0]), block_in(0));
    return builder.CreateAdd(builder.CreateMul(block_in(2), plane), row);
}

} // namespace

bool is_position_name(llvm::StringRef name)
{
    return position_of(name) != NONE;
}

bool is_position_call(const llvm::Instruction &instruction)
{
    const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    return call != nullptr && call->getCalledFunction() != nullptr &&
           is_position_name(call->getCalledFunction()->getName());
}

bool is_block_position_call(const llvm::Instruction &instruction)
{
    if (!is_position_call(instruction))
        return false;
    const Position which = position_of(llvm::cast<llvm::CallInst>(instruction).getCalledFunction()->getName());
    return (which >= CTAID_X && which <= NCTAID_Z) || which == SMID || which == SHARED || which == DYNAMIC_SHARED;
}

llvm::Value *position_value(llvm::CallInst &call, const ThreadView &view)
{
    llvm::IRBuilder<> builder(&call);
    const Position which = position_of(call.getCalledFunction()->getName());
    auto lane = [&] { return builder.CreateAnd(view.linear, builder.getInt32(VGC_CPU_WARP - 1)); };
    if (which <= TID_Z)
        return view.tid[which - TID_X];
    if (which <= CTAID_Z)
        return view.block_idx[which - CTAID_X];
    if (which <= NTID_Z)
        return view.block_dim[which - NTID_X];
    if (which <= NCTAID_Z)
        return view.grid_dim[which - NCTAID_X];
    if (which <= SLOT_BYTES)
        return cluster_value(builder, which, view);
    switch (which) {
    case LINEAR:
        return view.linear;
    case LANE:
        return lane();
    case WARP:
        return builder.CreateLShr(view.linear, builder.getInt32(5));
    case SMID:
        return view.pe;
    case SHARED:
        return view.shared;
    case DYNAMIC_SHARED:
        return view.dynamic_shared;
    default:
        return lane_mask(builder, which, lane());
    }
}

llvm::Value *load_field(llvm::IRBuilder<> &builder, llvm::Value *ctx, llvm::Type *type, size_t offset, const char *name)
{
    return builder.CreateLoad(type, builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), ctx, offset), name);
}

void load_block_view(llvm::IRBuilder<> &builder, llvm::Value *ctx, ThreadView &view)
{
    llvm::Type *u32 = builder.getInt32Ty();
    for (unsigned axis = 0; axis < 3; axis++) {
        view.block_idx[axis] = load_field(builder, ctx, u32, offsetof(vgc_cpu_ctx, block_idx) + 4 * axis, "ctaid");
        view.block_dim[axis] = load_field(builder, ctx, u32, offsetof(vgc_cpu_ctx, block_dim) + 4 * axis, "ntid");
        view.grid_dim[axis] = load_field(builder, ctx, u32, offsetof(vgc_cpu_ctx, grid_dim) + 4 * axis, "nctaid");
    }
    for (unsigned axis = 0; axis < 3; axis++)
        view.cluster_dim[axis] =
            load_field(builder, ctx, u32, offsetof(vgc_cpu_ctx, cluster_dim) + 4 * axis, "cluster_nctaid");
    view.slot_bytes = load_field(builder, ctx, builder.getInt64Ty(), offsetof(vgc_cpu_ctx, slot_bytes), "slot_bytes");
    view.pe = load_field(builder, ctx, u32, offsetof(vgc_cpu_ctx, pe), "pe");
    view.shared = load_field(builder, ctx, builder.getPtrTy(), offsetof(vgc_cpu_ctx, shared), "shared");
    view.dynamic_shared =
        load_field(builder, ctx, builder.getPtrTy(), offsetof(vgc_cpu_ctx, dynamic_shared), "dynamic");
}

void forget_effects_of_positions(llvm::Module &module)
{
    llvm::SmallSetVector<llvm::Function *, 16> readers;
    const auto take_callers = [&](llvm::Function &callee) {
        for (llvm::User *user : callee.users())
            if (auto *call = llvm::dyn_cast<llvm::CallBase>(user)) {
                if (!is_position_name(callee.getName()))
                    call->removeFnAttr(llvm::Attribute::Memory);
                readers.insert(call->getFunction());
            }
    };
    for (llvm::Function &function : module)
        if (is_position_name(function.getName()))
            take_callers(function);
    for (size_t i = 0; i < readers.size(); i++) {
        readers[i]->removeFnAttr(llvm::Attribute::Memory);
        readers[i]->removeFnAttr(llvm::Attribute::AlwaysInline);
        readers[i]->addFnAttr(llvm::Attribute::NoInline);
        take_callers(*readers[i]);
    }
}

/// Makes functions that were not inlined read their thread's position through a thread-local pointer.
void lower_positions_by_context(llvm::Function &function)
{
    std::vector<llvm::CallInst *> calls;
    for (llvm::Instruction &instruction : llvm::instructions(function))
        if (is_position_call(instruction))
            calls.push_back(llvm::cast<llvm::CallInst>(&instruction));
    if (calls.empty())
        return;
    llvm::Module &module = *function.getParent();
    llvm::GlobalVariable *current = module.getGlobalVariable("vgc_cpu_current");
    if (current == nullptr)
        current = new llvm::GlobalVariable(module, llvm::PointerType::get(module.getContext(), 0), false,
                                           llvm::GlobalValue::ExternalLinkage, nullptr, "vgc_cpu_current", nullptr,
                                           llvm::GlobalValue::InitialExecTLSModel);
    llvm::IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
    llvm::Value *ctx = builder.CreateLoad(builder.getPtrTy(), current, "ctx");
    ThreadView view{};
    load_block_view(builder, ctx, view);
    for (unsigned axis = 0; axis < 3; axis++) {
        auto *tid = llvm::cast<llvm::LoadInst>(
            load_field(builder, ctx, builder.getInt32Ty(), offsetof(vgc_cpu_ctx, tid) + 4 * axis, "tid"));
        tid->setVolatile(true); // else calls leave the loop over threads, whose region stores to memory of its own
        view.tid[axis] = tid;
    }
    llvm::Value *plane = builder.CreateAdd(builder.CreateMul(view.tid[2], view.block_dim[1]), view.tid[1]);
    view.linear = builder.CreateAdd(builder.CreateMul(plane, view.block_dim[0]), view.tid[0]);
    for (llvm::CallInst *call : calls) {
        call->replaceAllUsesWith(position_value(*call, view));
        call->eraseFromParent();
    }
}

} // namespace vgc
