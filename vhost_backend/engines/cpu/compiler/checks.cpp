// Calls of the runtime before accesses to memory, which it checks (../check.c). The address of the access becomes the
// call's result, so that the runtime can make an access harmless that must not happen.
//
// The calls tell which object the address was derived from, as far as it is known, so that an index too large is found
// also where it leads into another object.
#include "checks.h"

#include "../vgc_cpu_checks.h"
#include "demangled.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DebugProgramInstruction.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace vgc
{
namespace
{

/// Root of an address: the object or the pointer that it was derived from.
struct Root {
    vgc_object_kind kind = VGC_OBJECT_POINTER;
    llvm::Value *base = nullptr;
    uint64_t bytes = 0;
    std::string name;
};

/// One pointer of an instruction that accesses memory.
struct Access {
    llvm::Instruction *instruction;
    unsigned operand;
    llvm::Value *bytes;
    uint32_t flags;
    llvm::Value *value = nullptr; // that is stored, if it fits into 64 bits
};

class Checker
{
  public:
    Checker(llvm::Module &module, const Program &program, uint32_t checks)
        : module_(module), layout_(module.getDataLayout()), builder_(module.getContext()), checks_(checks)
    {
        llvm::Type *pointer = builder_.getPtrTy();
        llvm::Type *u32 = builder_.getInt32Ty(), *u64 = builder_.getInt64Ty();
        check_ = module.getOrInsertFunction("__vgc_check", pointer, pointer, pointer, u64, pointer, u64);
        llvm::cast<llvm::Function>(check_.getCallee())->setDoesNotThrow();
        record_ = llvm::StructType::get(module.getContext(), {pointer, pointer, u64, u32, u32, u32, u32, u32, u32});
        for (const Kernel &kernel : program.kernels)
            for (const Param &param : kernel.params)
                if (param.passing == Param::MEMORY)
                    parameters_.insert(kernel.function->getArg(param.first_arg));
        for (const Global &global : program.globals)
            names_[global.variable] = global.name;
    }

    void run(llvm::Function &function)
    {
        const llvm::DominatorTree dominators(function);
        std::vector<Access> accesses;
        for (llvm::Instruction &instruction : llvm::instructions(function))
            collect(instruction, accesses);
        if ((checks_ & VGC_CPU_KERNEL_INITCHECK) != 0)
            follow_locals(function);
        for (const Access &access : accesses)
            check(access, dominators);
        if ((checks_ & HEAP_CHECKS) != 0)
            follow_heap(function);
    }

  private:
    static constexpr uint32_t HEAP_CHECKS =
        VGC_CPU_KERNEL_MEMCHECK | VGC_CPU_KERNEL_INITCHECK | VGC_CPU_KERNEL_LEAKCHECK;
    static constexpr uint64_t MAX_FOLLOWED = 1 << 20; // bytes of a local variable

    /// True if all accesses to the variable are seen: nothing else gets its address.
    static bool is_followed(const llvm::AllocaInst &local, const llvm::Value &pointer,
                            llvm::SmallPtrSetImpl<const llvm::Value *> &seen)
    {
        if (!seen.insert(&pointer).second)
            return true;
        return llvm::all_of(pointer.uses(), [&](const llvm::Use &use) {
            const auto *user = llvm::cast<llvm::Instruction>(use.getUser());
            if (llvm::isa<llvm::LoadInst, llvm::ICmpInst, llvm::MemIntrinsic>(user) || user->isLifetimeStartOrEnd())
                return true;
            if (llvm::isa<llvm::StoreInst>(user))
                return use.getOperandNo() == llvm::StoreInst::getPointerOperandIndex();
            if (llvm::isa<llvm::AtomicRMWInst, llvm::AtomicCmpXchgInst>(user))
                return use.getOperandNo() == 0;
            if (!llvm::isa<llvm::GetElementPtrInst, llvm::PHINode, llvm::SelectInst>(user))
                return false;
            llvm::SmallVector<const llvm::Value *, 4> objects;
            llvm::getUnderlyingObjects(user, objects, nullptr, 0);
            return objects.size() == 1 && objects[0] == &local && is_followed(local, *user, seen);
        });
    }

    /// Gives local variables a bit for each byte, which says whether it was written.
    void follow_locals(llvm::Function &function)
    {
        std::vector<llvm::AllocaInst *> locals;
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (auto *local = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) {
                const auto size = local->getAllocationSize(layout_);
                llvm::SmallPtrSet<const llvm::Value *, 16> seen;
                if (size && !size->isScalable() && size->getFixedValue() <= MAX_FOLLOWED &&
                    is_followed(*local, *local, seen))
                    locals.push_back(local);
            }
        for (llvm::AllocaInst *local : locals) {
            const uint64_t bytes = (local->getAllocationSize(layout_)->getFixedValue() + 7) / 8;
            builder_.SetInsertPoint(local->getNextNode());
            builder_.SetCurrentDebugLocation(llvm::DebugLoc());
            llvm::AllocaInst *bits = builder_.CreateAlloca(llvm::ArrayType::get(builder_.getInt8Ty(), bytes));
            builder_.CreateMemSet(bits, builder_.getInt8(0), bytes, llvm::Align(1));
            for (llvm::User *user : llvm::make_early_inc_range(local->users()))
                if (auto *begin = llvm::dyn_cast<llvm::IntrinsicInst>(user);
                    begin != nullptr && begin->getIntrinsicID() == llvm::Intrinsic::lifetime_start) {
                    builder_.SetInsertPoint(begin->getNextNode()); // in each round of a loop
                    builder_.CreateMemSet(bits, builder_.getInt8(0), bytes, llvm::Align(1));
                }
            written_[local] = bits;
        }
    }

    /// Calls checked forms of what malloc() and free() call, which also get the place.
    void follow_heap(llvm::Function &function)
    {
        std::vector<llvm::CallInst *> calls;
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
                call != nullptr && call->getCalledFunction() != nullptr)
                calls.push_back(call);
        for (llvm::CallInst *call : calls) {
            const llvm::StringRef name = call->getCalledFunction()->getName();
            if (name != "__vgc_heap_allocate" && name != "__vgc_heap_release")
                continue;
            builder_.SetInsertPoint(call);
            std::vector<llvm::Value *> arguments(call->arg_begin(), call->arg_end());
            arguments.push_back(
                record({call, 0, call->getArgOperand(2), VGC_ACCESS_WRITE}, Root(), checks_ & HEAP_CHECKS));
            std::vector<llvm::Type *> types;
            for (const llvm::Value *argument : arguments)
                types.push_back(argument->getType());
            auto *type = llvm::FunctionType::get(call->getType(), types, false);
            auto *checked =
                builder_.CreateCall(module_.getOrInsertFunction((name + "_checked").str(), type), arguments);
            call->replaceAllUsesWith(checked);
            call->eraseFromParent();
        }
    }

    void collect(llvm::Instruction &instruction, std::vector<Access> &into)
    {
        auto size_of = [&](llvm::Type *type) { return builder_.getInt64(layout_.getTypeStoreSize(type)); };
        const uint32_t is_volatile = instruction.isVolatile() ? uint32_t(VGC_ACCESS_VOLATILE) : 0;
        const uint32_t is_atomic = instruction.isAtomic() ? uint32_t(VGC_ACCESS_ATOMIC) : 0;
        const uint32_t flags = is_volatile | is_atomic;
        if (auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
            into.push_back({load, load->getPointerOperandIndex(), size_of(load->getType()),
                            VGC_ACCESS_READ | flags | (keeps_bits(*load) ? uint32_t(VGC_ACCESS_COPY) : 0)});
        } else if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction)) {
            into.push_back({store, store->getPointerOperandIndex(), size_of(store->getValueOperand()->getType()),
                            VGC_ACCESS_WRITE | flags, store->getValueOperand()});
        } else if (auto *update = llvm::dyn_cast<llvm::AtomicRMWInst>(&instruction)) {
            into.push_back({update, update->getPointerOperandIndex(), size_of(update->getType()),
                            VGC_ACCESS_READ | VGC_ACCESS_WRITE | flags});
        } else if (auto *exchange = llvm::dyn_cast<llvm::AtomicCmpXchgInst>(&instruction)) {
            into.push_back({exchange, exchange->getPointerOperandIndex(),
                            size_of(exchange->getNewValOperand()->getType()),
                            VGC_ACCESS_READ | VGC_ACCESS_WRITE | flags});
        } else if (auto *block = llvm::dyn_cast<llvm::MemIntrinsic>(&instruction)) {
            llvm::Value *bytes = block->getLength();
            const bool copies = llvm::isa<llvm::MemTransferInst>(block);
            into.push_back({block, 0, bytes, VGC_ACCESS_WRITE | flags});
            if (copies)
                into.push_back({block, 1, bytes, VGC_ACCESS_READ | VGC_ACCESS_COPY | flags});
        }
    }

    /// True if the load is part of a store to some of its bits, as to a bit field: the others only stay as they are.
    static bool keeps_bits(const llvm::LoadInst &load)
    {
        const llvm::Value *value = &load;
        while (value->hasOneUse()) {
            const auto *user = llvm::cast<llvm::Instruction>(*value->user_begin());
            if (const auto *store = llvm::dyn_cast<llvm::StoreInst>(user))
                return value != &load && store->getValueOperand() == value &&
                       store->getPointerOperand() == load.getPointerOperand();
            if (user->getOpcode() != llvm::Instruction::And && user->getOpcode() != llvm::Instruction::Or)
                return false;
            if (value == &load && !llvm::isa<llvm::ConstantInt>(user->getOperand(1)))
                return false;
            value = user;
        }
        return false;
    }

    static uint64_t shared_bytes(const llvm::Function &callee)
    {
        uint64_t bytes = 0;
        (void)callee.getFnAttribute(SHARED_VARIABLE).getValueAsString().getAsInteger(10, bytes);
        return bytes;
    }

    /// Describes the only object that the address can be in.
    Root root_of(llvm::Value *object)
    {
        Root root;
        root.base = object;
        if (!llvm::isa<llvm::CallInst>(object)) // whose names are clang's
            root.name = object->getName().split('.').first.str();
        if (const auto *local = llvm::dyn_cast<llvm::AllocaInst>(object)) {
            const auto size = local->getAllocationSize(layout_);
            root.kind = VGC_OBJECT_LOCAL;
            root.bytes = size ? size->getFixedValue() : 0;
        } else if (const auto *variable = llvm::dyn_cast<llvm::GlobalVariable>(object)) {
            root.kind = VGC_OBJECT_VARIABLE;
            root.bytes = layout_.getTypeAllocSize(variable->getValueType());
            const auto known = names_.find(variable);
            root.name = known != names_.end() ? known->second : demangled(variable->getName());
        } else if (is_shared_object(object)) {
            const llvm::Function &callee = *llvm::cast<llvm::CallInst>(object)->getCalledFunction();
            if (!callee.hasFnAttribute(SHARED_VARIABLE))
                return {VGC_OBJECT_ANY_SHARED, nullptr, 0, ""};
            root.bytes = shared_bytes(callee);
            root.kind = root.bytes == 0 ? VGC_OBJECT_DYNAMIC : VGC_OBJECT_SHARED;
            root.name = object_name(*object);
        } else if (llvm::isa<llvm::Constant>(object)) {
            root.base = nullptr;
        }
        return root;
    }

    Root find_root(llvm::Value *pointer, const llvm::Instruction &at, const llvm::DominatorTree &dominators)
    {
        llvm::SmallVector<const llvm::Value *, 4> objects;
        llvm::getUnderlyingObjects(pointer, objects, nullptr, 0);
        const bool all_shared = llvm::all_of(objects, is_shared_object);
        const bool all_local =
            llvm::all_of(objects, [](const llvm::Value *object) { return llvm::isa<llvm::AllocaInst>(object); });
        if (objects.size() == 1) {
            auto *object = const_cast<llvm::Value *>(objects[0]);
            if (dominators.dominates(object, &at))
                return root_of(object);
        }
        return {all_shared ? VGC_OBJECT_ANY_SHARED : all_local ? VGC_OBJECT_LOCAL : VGC_OBJECT_POINTER, nullptr, 0, ""};
    }

    /// The checks that can find something in an object.
    uint32_t checks_of(const Root &root) const
    {
        if (root.kind == VGC_OBJECT_LOCAL && written_.contains(root.base))
            return checks_ & (VGC_CPU_KERNEL_MEMCHECK | VGC_CPU_KERNEL_INITCHECK);
        if (root.kind == VGC_OBJECT_LOCAL || root.kind == VGC_OBJECT_VARIABLE)
            return checks_ & VGC_CPU_KERNEL_MEMCHECK;
        return checks_ & ~uint32_t(VGC_CPU_KERNEL_LEAKCHECK);
    }

    /// True if the access is within its object for sure.
    bool is_inside(llvm::Value *pointer, const Root &root, const llvm::Value *bytes) const
    {
        const auto *size = llvm::dyn_cast<llvm::ConstantInt>(bytes);
        if (root.bytes == 0 || size == nullptr || size->getZExtValue() > root.bytes)
            return false;
        llvm::APInt offset(64, 0);
        const llvm::Value *base = pointer->stripAndAccumulateConstantOffsets(layout_, offset, true);
        return base == root.base && offset.ule(root.bytes - size->getZExtValue());
    }

    llvm::Constant *text(llvm::StringRef value)
    {
        llvm::Constant *&known = texts_[value];
        if (known == nullptr)
            known = builder_.CreateGlobalString(value, "vgc.text", 0, &module_);
        return known;
    }

    llvm::Constant *record(const Access &access, const Root &root, uint32_t checks)
    {
        const llvm::DILocation *at = place_in_source(*access.instruction);
        auto u32 = [&](uint32_t value) { return builder_.getInt32(value); };
        llvm::Constant *value = llvm::ConstantStruct::get(
            record_, {text(at == nullptr ? "" : at->getFilename()), text(root.name), builder_.getInt64(root.bytes),
                      u32(at == nullptr ? 0 : at->getLine()), u32(at == nullptr ? 0 : at->getColumn()),
                      u32(access.flags | (access.value != nullptr ? uint32_t(VGC_ACCESS_VALUE) : 0)), u32(root.kind),
                      u32(checks), u32(0)});
        return new llvm::GlobalVariable(module_, record_, true, llvm::GlobalValue::PrivateLinkage, value, "vgc.access");
    }

    /// The stored value as 64 bits; null if it has more.
    llvm::Value *bits_of(llvm::Value *value)
    {
        llvm::Type *type = value->getType();
        const uint64_t bits = layout_.getTypeSizeInBits(type);
        if (bits > 64 || bits % 8 != 0 || (!type->isIntegerTy() && !type->isFloatingPointTy() && !type->isPointerTy()))
            return nullptr;
        if (type->isPointerTy())
            return builder_.CreatePtrToInt(value, builder_.getInt64Ty());
        return builder_.CreateZExt(builder_.CreateBitCast(value, builder_.getIntNTy(unsigned(bits))),
                                   builder_.getInt64Ty());
    }

    void check(Access access, const llvm::DominatorTree &dominators)
    {
        llvm::Instruction &instruction = *access.instruction;
        llvm::Value *pointer = instruction.getOperand(access.operand);
        const Root root = find_root(pointer, instruction, dominators);
        uint32_t checks = checks_of(root);
        if (root.base != nullptr && parameters_.contains(root.base))
            return;
        if (is_inside(pointer, root, access.bytes) ||
            (root.kind == VGC_OBJECT_LOCAL && (root.base == nullptr || root.bytes == 0)))
            checks &= ~uint32_t(VGC_CPU_KERNEL_MEMCHECK);
        if (checks == 0)
            return;
        builder_.SetInsertPoint(&instruction);
        builder_.SetCurrentDebugLocation(llvm::DebugLoc());
        llvm::Value *value = access.value == nullptr ? nullptr : bits_of(access.value);
        access.value = value;
        if ((checks & VGC_CPU_KERNEL_INITCHECK) != 0 && root.kind == VGC_OBJECT_LOCAL)
            value = builder_.CreatePtrToInt(written_.lookup(root.base), builder_.getInt64Ty());
        if (const auto *bytes = llvm::dyn_cast<llvm::ConstantInt>(access.bytes);
            !llvm::isa<llvm::MemIntrinsic>(instruction) && bytes != nullptr && bytes->getValue().ugt(VGC_CPU_SCRATCH))
            access.flags |= VGC_ACCESS_LARGE;
        llvm::Value *null = llvm::ConstantPointerNull::get(builder_.getPtrTy());
        llvm::Value *checked = builder_.CreateCall(
            check_, {pointer, root.base == nullptr ? null : root.base,
                     builder_.CreateZExtOrTrunc(access.bytes, builder_.getInt64Ty()), record(access, root, checks),
                     value == nullptr ? builder_.getInt64(0) : value});
        instruction.setOperand(access.operand, checked);
        if (auto *block = llvm::dyn_cast<llvm::MemIntrinsic>(&instruction)) { // of any length: none if it is wrong
            llvm::Value *length = block->getLength();
            block->setLength(builder_.CreateSelect(builder_.CreateICmpEQ(checked, pointer), length,
                                                   llvm::ConstantInt::get(length->getType(), 0)));
        }
    }

    llvm::Module &module_;
    const llvm::DataLayout &layout_;
    llvm::IRBuilder<> builder_;
    const uint32_t checks_;
    llvm::FunctionCallee check_;
    llvm::StructType *record_;
    llvm::DenseMap<const llvm::Value *, llvm::Value *> written_; // bits of local variables
    llvm::SmallPtrSet<const llvm::Value *, 8> parameters_;       // that are in the launch's block of parameters
    llvm::DenseMap<const llvm::Value *, std::string> names_;
    llvm::StringMap<llvm::Constant *> texts_;
};

/// Gives the variable's value in IR, an alloca or an argument, the variable's name.
void name_variable(llvm::Function &function, const llvm::DILocalVariable &variable, llvm::Value *address)
{
    if (variable.getArg() == 0 && address != nullptr && llvm::isa<llvm::AllocaInst>(address))
        address->setName(variable.getName());
    if (variable.getArg() == 0 || address == nullptr)
        return;
    for (llvm::User *user : address->users()) // clang stores the argument into the variable
        if (auto *store = llvm::dyn_cast<llvm::StoreInst>(user); store != nullptr &&
                                                                 llvm::isa<llvm::Argument>(store->getValueOperand()) &&
                                                                 store->getFunction() == &function)
            store->getValueOperand()->setName(variable.getName());
}

} // namespace

const llvm::DILocation *place_in_source(const llvm::Instruction &instruction)
{
    const llvm::DILocation *first = nullptr;
    for (const llvm::Instruction *at = &instruction; at != nullptr && first == nullptr; at = at->getPrevNode())
        first = at->getDebugLoc();
    const llvm::DISubprogram *kernel = instruction.getFunction()->getSubprogram();
    for (const llvm::DILocation *at = first; at != nullptr && kernel != nullptr; at = at->getInlinedAt())
        if (at->getFilename() == kernel->getFilename())
            return at;
    return first;
}

std::string object_name(const llvm::Value &shared)
{
    const llvm::StringRef name = llvm::cast<llvm::CallInst>(shared).getCalledFunction()->getName();
    return demangled(name.take_front(name.rfind(".shared")));
}

void name_objects(llvm::Module &module)
{
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function)) {
            if (const auto *declare = llvm::dyn_cast<llvm::DbgDeclareInst>(&instruction))
                name_variable(function, *declare->getVariable(), declare->getAddress());
            for (llvm::DbgVariableRecord &record : llvm::filterDbgVars(instruction.getDbgRecordRange()))
                if (record.isDbgDeclare())
                    name_variable(function, *record.getVariable(), record.getAddress());
        }
}

void check_accesses(llvm::Module &module, Program &program, uint32_t checks)
{
    Checker checker(module, program, checks);
    for (llvm::Function &function : module)
        if (!function.isDeclaration())
            checker.run(function);
    for (Kernel &kernel : program.kernels)
        kernel.flags |= checks;
}

} // namespace vgc
