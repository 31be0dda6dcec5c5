#include "externs.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;
using Builder = llvm::IRBuilder<>;

const uint64_t HEAP_BYTES = 8 << 20; // unless an option says more; kernels/cpu/include/vgc_heap.h has the same

/// Calls a function of the runtime.
Value *call(Builder &b, const char *name, llvm::Type *result, llvm::ArrayRef<Value *> arguments)
{
    std::vector<llvm::Type *> types;
    for (const Value *argument : arguments)
        types.push_back(argument->getType());
    llvm::Module &module = *b.GetInsertBlock()->getModule();
    return b.CreateCall(module.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false)), arguments);
}

Value *pointer(Builder &b, llvm::Function &function, unsigned argument)
{
    return b.CreateIntToPtr(function.getArg(argument), b.getPtrTy());
}

/// Memory of malloc() in the image; begins with zeroes.
llvm::GlobalVariable *heap(llvm::Module &module, uint64_t bytes)
{
    if (llvm::GlobalVariable *made = module.getGlobalVariable("__vgc_heap", true))
        return made;
    auto *type = llvm::ArrayType::get(llvm::Type::getInt8Ty(module.getContext()), bytes);
    auto *made = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage,
                                          llvm::Constant::getNullValue(type), "__vgc_heap");
    made->setAlignment(llvm::Align(4096));
    return made;
}

void define_vprintf(Builder &b, llvm::Function &function, uint64_t)
{
    b.CreateRet(call(b, "__vgc_vprintf", b.getInt32Ty(), {pointer(b, function, 0), pointer(b, function, 1)}));
}

void define_assertfail(Builder &b, llvm::Function &function, uint64_t)
{
    call(b, "__vgc_assert_fail", b.getVoidTy(),
         {pointer(b, function, 0), pointer(b, function, 1), function.getArg(2), pointer(b, function, 3)});
    b.CreateUnreachable();
}

void define_malloc(Builder &b, llvm::Function &function, uint64_t heap_bytes)
{
    Value *memory =
        call(b, "__vgc_heap_allocate", b.getPtrTy(),
             {heap(*function.getParent(), heap_bytes), b.getInt64(heap_bytes), function.getArg(0), b.getInt64(16)});
    b.CreateRet(b.CreatePtrToInt(memory, b.getInt64Ty()));
}

void define_free(Builder &b, llvm::Function &function, uint64_t heap_bytes)
{
    call(b, "__vgc_heap_release", b.getVoidTy(),
         {heap(*function.getParent(), heap_bytes), b.getInt64(heap_bytes), pointer(b, function, 0)});
    b.CreateRetVoid();
}

/// A group of libcudadevrt: all blocks, of this device or of all, which are the same here.
void define_group(Builder &b, llvm::Function &function, uint64_t)
{
    b.CreateRet(b.CreateZExt(function.getArg(0), b.getInt64Ty()));
}

void define_synchronize(Builder &b, llvm::Function &, uint64_t)
{
    call(b, "__vgc_grid_barrier", b.getVoidTy(), {});
    b.CreateRet(b.getInt32(0)); // cudaSuccess
}

struct Extern {
    llvm::StringRef name;
    unsigned result; // bits
    std::vector<unsigned> parameters;
    void (*define)(Builder &b, llvm::Function &function, uint64_t heap_bytes);
};

llvm::FunctionType *type_of(const Extern &known, llvm::LLVMContext &context)
{
    auto integer = [&](unsigned bits) -> llvm::Type * {
        return bits == 0 ? llvm::Type::getVoidTy(context) : llvm::Type::getIntNTy(context, bits);
    };
    std::vector<llvm::Type *> types;
    for (const unsigned bits : known.parameters)
        types.push_back(integer(bits));
    return llvm::FunctionType::get(integer(known.result), types, false);
}

llvm::FunctionType *without_result(llvm::FunctionType *type)
{
    return llvm::FunctionType::get(llvm::Type::getVoidTy(type->getContext()), type->params(), false);
}

/// Gives a function that is declared without its result a body that calls the one with it, which is returned.
llvm::Function *behind(llvm::Function &function, llvm::FunctionType *type)
{
    auto *whole = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "", function.getParent());
    Builder b(llvm::BasicBlock::Create(function.getContext(), "", &function));
    std::vector<Value *> arguments;
    for (llvm::Argument &argument : function.args())
        arguments.push_back(&argument);
    b.CreateCall(whole, arguments);
    b.CreateRetVoid();
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    return whole;
}

} // namespace

bool define_extern(llvm::Function &function, llvm::StringRef name, uint64_t heap_bytes)
{
    const Extern externs[] = {
        {"vprintf", 32, {64, 64}, define_vprintf},
        {"__assertfail", 0, {64, 64, 32, 64, 64}, define_assertfail},
        {"malloc", 64, {64}, define_malloc},
        {"_Znwm", 64, {64}, define_malloc},
        {"_Znam", 64, {64}, define_malloc},
        {"free", 0, {64}, define_free},
        {"_ZdlPv", 0, {64}, define_free},
        {"_ZdaPv", 0, {64}, define_free},
        {"cudaCGGetIntrinsicHandle", 64, {32}, define_group},
        {"cudaCGSynchronize", 32, {64, 32}, define_synchronize},
    };
    for (const Extern &known : externs) {
        llvm::FunctionType *type = type_of(known, function.getContext());
        if (known.name != name ||
            (type != function.getFunctionType() && without_result(type) != function.getFunctionType()))
            continue;
        llvm::Function *defined = type == function.getFunctionType() ? &function : behind(function, type);
        Builder b(llvm::BasicBlock::Create(function.getContext(), "", defined));
        known.define(b, *defined, heap_bytes == 0 ? HEAP_BYTES : heap_bytes);
        defined->setLinkage(llvm::GlobalValue::InternalLinkage);
        return true;
    }
    return false;
}

} // namespace vgc::ptx
