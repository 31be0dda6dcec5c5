// Emission of the table that the runtime reads: struct vgc_cpu_image of ../vgc_cpu_abi.h, as constants.
#include "compiler.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"

namespace vgc
{
namespace
{

const uint64_t MAX_VARIABLES = 1984ull << 20; // code reaches them with 32 bits, sign included
const uint64_t MAX_VALUES = 256ull << 20;     // of an image that can be loaded

class TableWriter
{
  public:
    explicit TableWriter(llvm::Module &module) : module_(module), context_(module.getContext())
    {
    }

    llvm::Constant *u32(uint64_t value)
    {
        return llvm::ConstantInt::get(llvm::Type::getInt32Ty(context_), value);
    }
    llvm::Constant *u64(uint64_t value)
    {
        return llvm::ConstantInt::get(llvm::Type::getInt64Ty(context_), value);
    }
    llvm::Constant *pointer(llvm::Constant *value)
    {
        if (value == nullptr)
            return llvm::ConstantPointerNull::get(llvm::PointerType::get(context_, 0));
        return value;
    }
    llvm::Constant *text(llvm::StringRef value)
    {
        return variable(llvm::ConstantDataArray::getString(context_, value), ".text");
    }
    llvm::Constant *record(llvm::ArrayRef<llvm::Constant *> fields)
    {
        return llvm::ConstantStruct::getAnon(context_, fields);
    }
    /// Emits an array of records of one type; returns the address of the first.
    llvm::Constant *array(llvm::ArrayRef<llvm::Constant *> records)
    {
        if (records.empty())
            return llvm::ConstantPointerNull::get(llvm::PointerType::get(context_, 0));
        return variable(llvm::ConstantArray::get(llvm::ArrayType::get(records[0]->getType(), records.size()), records),
                        ".table");
    }

  private:
    llvm::Constant *variable(llvm::Constant *value, const char *name)
    {
        return new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage, value,
                                        llvm::Twine("vgc") + name);
    }
    llvm::Module &module_;
    llvm::LLVMContext &context_;
};

llvm::Constant *kernel_record(TableWriter &writer, const Kernel &kernel, uint32_t index, bool launches)
{
    std::vector<llvm::Constant *> sites, params;
    uint32_t flags = kernel.flags | (launches ? uint32_t(VGC_CPU_KERNEL_LAUNCHES) : 0);
    for (const Kernel::Site &site : kernel.sites)
        flags |= site.kind == VGC_SITE_GRID ? uint32_t(VGC_CPU_KERNEL_RESIDENT) : 0;
    flags |= kernel.function->hasFnAttribute(CLUSTERS) ? uint32_t(VGC_CPU_KERNEL_RESIDENT) : 0;
    for (const Kernel::Site &site : kernel.sites)
        sites.push_back(
            writer.record({site.resume, writer.u32(site.kind), writer.u32(site.flags), writer.u32(site.mask),
                           writer.u32(site.arg), writer.pointer(site.work), writer.pointer(site.table)}));
    for (const Param &param : kernel.params)
        params.push_back(
            writer.record({writer.u32(param.offset), writer.u32(param.size), writer.u32(param.kind), writer.u32(0)}));
    return writer.record({writer.text(kernel.name),
                          writer.text(kernel.short_name),
                          writer.array(sites),
                          writer.array(params),
                          writer.u32(sites.size()),
                          writer.u32(params.size()),
                          writer.u32(kernel.param_bytes),
                          writer.u32(kernel.shared_bytes),
                          writer.u32(kernel.max_threads),
                          writer.u32(kernel.frame_bytes),
                          writer.u32(flags),
                          writer.u32(index),
                          writer.u32(kernel.cluster[0]),
                          writer.u32(kernel.cluster[1]),
                          writer.u32(kernel.cluster[2]),
                          writer.u32(kernel.block[0]),
                          writer.u32(kernel.block[1]),
                          writer.u32(kernel.block[2]),
                          writer.u32(kernel.local_bytes),
                          writer.u32(0)});
}

} // namespace

void check_variables(const llvm::Module &module)
{
    uint64_t all = 0, with_values = 0;
    for (const llvm::GlobalVariable &variable : module.globals()) {
        if (variable.isDeclaration())
            continue;
        const uint64_t bytes = module.getDataLayout().getTypeAllocSize(variable.getValueType());
        all += bytes;
        with_values += variable.getInitializer()->isNullValue() ? 0 : bytes;
    }
    if (all > MAX_VARIABLES)
        fail("the program's variables have " + llvm::Twine(all) + " bytes (allowed: " + llvm::Twine(MAX_VARIABLES) +
             ")");
    if (with_values > MAX_VALUES)
        fail("the program's variables with values other than zero have " + llvm::Twine(with_values) +
             " bytes (allowed: " + llvm::Twine(MAX_VALUES) + ")");
}

void emit_table(llvm::Module &module, const Program &program)
{
    TableWriter writer(module);
    std::vector<llvm::Constant *> kernels, globals;
    const bool launches = module.getFunction("__vgc_launch") != nullptr;
    for (const Kernel &kernel : program.kernels)
        kernels.push_back(kernel_record(writer, kernel, uint32_t(kernels.size()), launches));
    for (const Global &global : program.globals) {
        const uint64_t size = module.getDataLayout().getTypeAllocSize(global.variable->getValueType());
        globals.push_back(writer.record({writer.text(global.name), global.variable, writer.u64(size)}));
    }
    llvm::Constant *table =
        writer.record({writer.u32(VGC_CPU_IMAGE_MAGIC), writer.u32(VGC_CPU_ABI), writer.u32(kernels.size()),
                       writer.u32(globals.size()), writer.array(kernels), writer.array(globals),
                       writer.u32(program.constant_bytes), writer.u32(0)});
    if (llvm::GlobalValue *guests = module.getNamedValue("vgc_cpu_image"))
        guests->setName("vgc_cpu_image.guest");
    new llvm::GlobalVariable(module, table->getType(), true, llvm::GlobalValue::ExternalLinkage, table,
                             "vgc_cpu_image");
}

} // namespace vgc
