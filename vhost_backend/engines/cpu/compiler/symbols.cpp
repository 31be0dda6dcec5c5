// The functions that compiled code may call: the runtime's, by a white list, and compiler-rt's, which are linked
// statically.
#include "symbols.h"
#include "compiler.h"
#include "options.h"
#include "unit_symbols.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/Object/Archive.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

/// True for symbols that an image may import; the runtime resolves exactly these (loader.c).
bool is_allowed_symbol(llvm::StringRef name)
{
    static const llvm::StringSet<> allowed = {
#define VGC_CPU_SYMBOL(name) #name,
#include "../vgc_cpu_symbols.h"
#undef VGC_CPU_SYMBOL
    };
    return allowed.contains(name);
}

llvm::StringSet<> names_in(const std::string &path)
{
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
        fail("cannot read " + path + ": " + buffer.getError().message() + " (apt-get install libclang-rt-19-dev)");
    auto archive = llvm::object::Archive::create(**buffer);
    if (!archive)
        fail("cannot read " + path + ": " + llvm::toString(archive.takeError()));
    llvm::StringSet<> names;
    for (const llvm::object::Archive::Symbol &symbol : (*archive)->symbols())
        names.insert(symbol.getName());
    return names;
}

/// Names the undefined ones of `symbols` that are not in `provided`, and who uses them; returns whether there are any.
template <typename Symbols>
bool refuse_undefined(const Symbols &symbols, const llvm::StringSet<> &provided, const Users &users)
{
    bool failed = false;
    for (const llvm::object::SymbolRef &symbol : symbols) {
        const uint32_t flags = llvm::cantFail(symbol.getFlags());
        const llvm::StringRef name = llvm::cantFail(symbol.getName());
        if (!(flags & llvm::object::SymbolRef::SF_Undefined) || name.empty() || is_allowed_symbol(name) ||
            provided.contains(name))
            continue;
        const auto user = users.find(name.str());
        const std::string where = user == users.end() ? "" : ", which unit '" + user->second + "' uses,";
        llvm::errs() << "vgc-cpucc: error: '" << source_name(name) << "'" << where
                     << (users.empty() ? " is not defined" : " is defined in no unit")
                     << ", and not a function that kernels may call\n";
        failed = true;
    }
    return failed;
}

/// Makes calls of a function end the launch.
void define_as_trap(llvm::Function &function)
{
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(function.getContext(), "", &function));
    builder.CreateCall(function.getParent()->getOrInsertFunction("__vgc_trap", builder.getVoidTy()));
    builder.CreateUnreachable();
    function.setVisibility(llvm::GlobalValue::HiddenVisibility);
}

/// Pure virtual functions, too.
void define_pure_functions(llvm::Module &module)
{
    for (const char *name : {"__cxa_pure_virtual", "__cxa_deleted_virtual"})
        if (llvm::Function *function = module.getFunction(name); function != nullptr && function->isDeclaration())
            define_as_trap(*function);
}

} // namespace

std::string library(const Options &options)
{
    return options.llvm + "/lib/clang/19/lib/linux/libclang_rt.builtins-x86_64.a";
}

void define_aborts(llvm::Module &module)
{
    define_pure_functions(module);
    for (const char *name : {"__stack_chk_fail", "__compilerrt_abort_impl"}) {
        if (llvm::Function *others = module.getFunction(name))
            others->setName("guest." + llvm::Twine(name));
        auto *function =
            llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), false),
                                   llvm::GlobalValue::ExternalLinkage, name, module);
        function->setVisibility(llvm::GlobalValue::HiddenVisibility);
        llvm::IRBuilder<> builder(llvm::BasicBlock::Create(module.getContext(), "", function));
        builder.CreateIntrinsic(llvm::Intrinsic::trap, {}, {});
        builder.CreateUnreachable();
    }
}

void define_missing(const Options &options, llvm::Module &module)
{
    const llvm::StringSet<> provided = names_in(library(options));
    const auto is_missing = [&](const llvm::GlobalObject &object) {
        return object.isDeclaration() && !object.use_empty() && !is_allowed_symbol(object.getName()) &&
               !provided.contains(object.getName());
    };
    for (llvm::Function &function : module)
        if (!function.isIntrinsic() && is_missing(function))
            define_as_trap(function);
    for (llvm::GlobalVariable &variable : module.globals())
        if (is_missing(variable)) {
            variable.setInitializer(llvm::Constant::getNullValue(variable.getValueType()));
            variable.setVisibility(llvm::GlobalValue::HiddenVisibility);
        }
}

void check_symbols(const Options &options, const std::vector<std::string> &objects, const Users &users)
{
    std::vector<llvm::object::OwningBinary<llvm::object::ObjectFile>> files;
    llvm::StringSet<> provided = names_in(library(options));
    for (const std::string &object : objects) {
        auto file = llvm::object::ObjectFile::createObjectFile(object);
        if (!file)
            fail("cannot read " + object + ": " + llvm::toString(file.takeError()));
        for (const llvm::object::SymbolRef &symbol : file->getBinary()->symbols())
            if (!(llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined))
                provided.insert(llvm::cantFail(symbol.getName()));
        files.push_back(std::move(*file));
    }
    bool failed = false;
    for (const auto &file : files)
        failed |= refuse_undefined(file.getBinary()->symbols(), provided, users);
    if (failed)
        fail("undefined symbols");
}

void check_imports(const std::string &image)
{
    auto file = llvm::object::ObjectFile::createObjectFile(image);
    if (!file)
        fail("cannot read " + image + ": " + llvm::toString(file.takeError()));
    const auto *elf = llvm::cast<llvm::object::ELFObjectFileBase>(file->getBinary());
    if (refuse_undefined(elf->getDynamicSymbolIterators(), {}, {}))
        fail("undefined symbols");
}

} // namespace vgc
