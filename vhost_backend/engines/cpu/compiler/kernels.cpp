// Finds a program's kernels with the layout of their parameters, and its variables that the host can address.
#include "compiler.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

namespace vgc
{
namespace
{

using llvm::DICompositeType;
using llvm::DIDerivedType;
using llvm::DIType;

const uint32_t MAX_CLASSIFIED = 16; // bytes; larger structs are passed in memory, even empty ones

/// Removes typedefs and qualifiers from a type.
const DIType *strip(const DIType *type)
{
    while (const auto *derived = llvm::dyn_cast_or_null<DIDerivedType>(type)) {
        switch (derived->getTag()) {
        case llvm::dwarf::DW_TAG_typedef:
        case llvm::dwarf::DW_TAG_const_type:
        case llvm::dwarf::DW_TAG_volatile_type:
        case llvm::dwarf::DW_TAG_restrict_type:
        case llvm::dwarf::DW_TAG_member:
        case llvm::dwarf::DW_TAG_inheritance:
        case llvm::dwarf::DW_TAG_template_alias:
            type = derived->getBaseType();
            continue;
        default:
            return type;
        }
    }
    return type;
}

uint64_t align_of(const DIType *type)
{
    if (type == nullptr)
        return 1;
    uint64_t align = std::max<uint64_t>(1, type->getAlignInBits() / 8);
    for (const DIType *next = type; const auto *derived = llvm::dyn_cast_or_null<DIDerivedType>(next);
         next = derived->getBaseType()) {
        align = std::max<uint64_t>(align, derived->getAlignInBits() / 8);
        if (strip(derived) == derived)
            break;
    }
    type = strip(type);
    const auto *composite = llvm::dyn_cast_or_null<DICompositeType>(type);
    if (composite == nullptr)
        return type == nullptr ? align : std::max<uint64_t>(align, std::min<uint64_t>(16, type->getSizeInBits() / 8));
    align = std::max<uint64_t>(align, composite->getAlignInBits() / 8);
    if (composite->getTag() == llvm::dwarf::DW_TAG_enumeration_type)
        return std::max<uint64_t>(align, composite->getSizeInBits() / 8);
    if (composite->getTag() == llvm::dwarf::DW_TAG_array_type)
        return std::max(align,
                        composite->isVector() ? composite->getSizeInBits() / 8 : align_of(composite->getBaseType()));
    for (const llvm::DINode *element : composite->getElements()) {
        const auto *member = llvm::dyn_cast<DIDerivedType>(element);
        if (member == nullptr || member->isStaticMember())
            continue;
        if (member->getTag() == llvm::dwarf::DW_TAG_member || member->getTag() == llvm::dwarf::DW_TAG_inheritance)
            align = std::max(align, align_of(member));
    }
    if (composite->getVTableHolder() != nullptr)
        align = std::max<uint64_t>(align, 8);
    return align;
}

bool is_record(const DIType *type)
{
    const auto *composite = llvm::dyn_cast<DICompositeType>(type);
    return composite != nullptr && composite->getTag() != llvm::dwarf::DW_TAG_enumeration_type &&
           composite->getTag() != llvm::dwarf::DW_TAG_array_type;
}

vgc_cpu_param_kind kind_of_number(const llvm::DIBasicType &type)
{
    const uint64_t bits = type.getSizeInBits();
    switch (type.getEncoding()) {
    case llvm::dwarf::DW_ATE_boolean:
    case llvm::dwarf::DW_ATE_signed:
    case llvm::dwarf::DW_ATE_signed_char:
    case llvm::dwarf::DW_ATE_unsigned:
    case llvm::dwarf::DW_ATE_unsigned_char:
    case llvm::dwarf::DW_ATE_UTF: // char16_t, char32_t
        return VGC_CPU_PARAM_INTEGER;
    case llvm::dwarf::DW_ATE_float: // long double and __bf16 are not IEEE 754 numbers of their size
        return type.getName() != "__bf16" && (bits == 16 || bits == 32 || bits == 64) ? VGC_CPU_PARAM_FLOAT
                                                                                      : VGC_CPU_PARAM_OTHER;
    default:
        return VGC_CPU_PARAM_OTHER;
    }
}

bool refers(const DIType *type)
{
    return type->getTag() == llvm::dwarf::DW_TAG_reference_type ||
           type->getTag() == llvm::dwarf::DW_TAG_rvalue_reference_type;
}

/// Kind of values that may be passed for a parameter of this type, without typedefs and qualifiers.
vgc_cpu_param_kind kind_of(const DIType *type)
{
    if (const auto *basic = llvm::dyn_cast<llvm::DIBasicType>(type))
        return kind_of_number(*basic);
    if (type->getTag() == llvm::dwarf::DW_TAG_pointer_type || refers(type))
        return VGC_CPU_PARAM_POINTER;
    if (type->getTag() == llvm::dwarf::DW_TAG_enumeration_type)
        return VGC_CPU_PARAM_INTEGER;
    return type->getName() == "__half" ? VGC_CPU_PARAM_FLOAT
                                       : VGC_CPU_PARAM_OTHER; // __half is a number, though a struct
}

/// Notes which of a struct's two halves of eight bytes have data. Empty classes have none, as bases and as members.
void find_data(const DIType *type, uint64_t offset, bool (&halves)[2])
{
    type = strip(type);
    const auto *composite = llvm::dyn_cast_or_null<DICompositeType>(type);
    if (type == nullptr || type->getSizeInBits() == 0 || offset >= 16)
        return;
    if (composite != nullptr && composite->getTag() == llvm::dwarf::DW_TAG_array_type && !composite->isVector()) {
        const DIType *element = strip(composite->getBaseType());
        for (uint64_t at = 0; at < std::min<uint64_t>(16, type->getSizeInBits() / 8);
             at += element->getSizeInBits() / 8)
            find_data(element, offset + at, halves);
    } else if (!is_record(type) || composite->getVTableHolder() != nullptr) {
        halves[offset / 8] = true;
        if (offset + type->getSizeInBits() / 8 > 8)
            halves[1] = true;
    }
    if (is_record(type))
        for (const llvm::DINode *element : composite->getElements())
            if (const auto *member = llvm::dyn_cast<DIDerivedType>(element);
                member != nullptr && !member->isStaticMember() &&
                (member->getTag() == llvm::dwarf::DW_TAG_member ||
                 member->getTag() == llvm::dwarf::DW_TAG_inheritance)) {
                const uint64_t first = 8 * offset + member->getOffsetInBits();
                if (!member->isBitField())
                    find_data(member, first / 8, halves);
                else if (first < 128 && member->getSizeInBits() != 0) // its type is larger than the member
                    halves[first / 64] = halves[std::min<uint64_t>(127, first + member->getSizeInBits() - 1) / 64] =
                        true;
            }
}

/// Finds the IR arguments, beginning at `arg`, that carry a parameter after clang's x86-64 lowering.
void match_arguments(const llvm::Function &function, const DIType *type, unsigned arg, Param &param)
{
    const llvm::DataLayout &layout = function.getParent()->getDataLayout();
    param.first_arg = arg;
    param.num_args = 1;
    param.passing = Param::DIRECT;
    if (!is_record(type)) {
        if (param.size == 16 && arg + 1 < function.arg_size() &&
            layout.getTypeStoreSize(function.getArg(arg)->getType()) == 8)
            param.num_args = 2; // __int128
        return;
    }
    bool halves[2] = {false, false};
    if (param.size <= MAX_CLASSIFIED)
        find_data(type, 0, halves);
    if (llvm::cast<DICompositeType>(type)->getFlags() & llvm::DINode::FlagTypePassByReference) {
        param.passing = Param::MEMORY;
    } else if (param.size <= MAX_CLASSIFIED && !halves[0] && !halves[1]) {
        param.passing = Param::SKIPPED;
        param.num_args = 0;
    } else if (arg < function.arg_size() && function.getArg(arg)->hasByValAttr()) {
        param.passing = Param::MEMORY;
    } else if (param.size <= MAX_CLASSIFIED && !halves[0]) {
        param.lead = 8;
    } else if (halves[1] && arg < function.arg_size() &&
               layout.getTypeStoreSize(function.getArg(arg)->getType()) <= 8) {
        param.num_args = 2;
    }
}

void collect_params(Kernel &kernel)
{
    const llvm::Function &function = *kernel.function;
    const llvm::DITypeRefArray types = function.getSubprogram()->getType()->getTypeArray();
    uint64_t offset = 0;
    unsigned arg = 0;
    for (unsigned i = 1; i < types.size(); i++) {
        const DIType *type = strip(types[i]);
        if (type == nullptr)
            fail("kernel '" + kernel.name + "' takes a variable number of arguments");
        Param param{};
        const uint64_t align = align_of(types[i]);
        param.size = uint32_t(type->getSizeInBits() / 8);
        offset = llvm::alignTo(offset, align);
        param.offset = uint32_t(offset);
        offset += type->getSizeInBits() / 8;
        param.kind = kind_of(type);
        match_arguments(function, type, arg, param);
        arg += param.num_args;
        kernel.params.push_back(param);
    }
    kernel.param_bytes = uint32_t(offset);
    if (arg != function.arg_size())
        fail("internal: parameters of kernel '" + kernel.name + "' do not match its code");
    if (offset > VGC_CPU_MAX_PARAMS)
        fail("kernel '" + kernel.name + "' has " + llvm::Twine(offset) + " bytes of parameters, at most " +
             llvm::Twine(int(VGC_CPU_MAX_PARAMS)) + " are possible");
}

std::string unqualified(llvm::StringRef name)
{
    return name.take_until([](char c) { return c == '<'; }).str();
}

void add_kernel(Program &program, llvm::Function &function)
{
    if (function.isDeclaration() || function.getSubprogram() == nullptr)
        return;
    for (const Kernel &known : program.kernels) // an instantiation repeats the template's annotation
        if (known.function == &function)
            return;
    Kernel kernel{};
    kernel.function = &function;
    kernel.name = (function.hasFnAttribute(NAME_IN_UNIT) ? function.getFnAttribute(NAME_IN_UNIT).getValueAsString()
                                                         : function.getName())
                      .str();
    kernel.short_name = unqualified(function.getSubprogram()->getName());
    kernel.max_threads = VGC_CPU_MAX_THREADS;
    collect_params(kernel);
    function.setComdat(nullptr);
    function.setLinkage(llvm::GlobalValue::ExternalLinkage);
    program.kernels.push_back(std::move(kernel));
}

/// Calls back with (object, annotation, arguments) for each __attribute__((annotate)) of functions, or of variables.
template <typename Object, typename Callback> void for_annotations(const llvm::Module &module, Callback callback)
{
    const llvm::GlobalVariable *annotations = module.getGlobalVariable("llvm.global.annotations");
    if (annotations == nullptr)
        return;
    const auto *array = llvm::cast<llvm::ConstantArray>(annotations->getInitializer());
    for (const llvm::Use &use : array->operands()) {
        const auto *entry = llvm::cast<llvm::ConstantStruct>(use);
        auto *object = llvm::dyn_cast<Object>(entry->getOperand(0)->stripPointerCasts());
        llvm::StringRef text;
        const auto *arguments = llvm::dyn_cast<llvm::GlobalVariable>(entry->getOperand(4)->stripPointerCasts());
        if (object != nullptr && llvm::getConstantStringInfo(entry->getOperand(1), text))
            callback(*object, text, arguments == nullptr ? nullptr : arguments->getInitializer());
    }
}

/// Notes the first argument of __launch_bounds__, the number of threads.
void apply_bounds(Program &program, const llvm::Function &function, const llvm::Constant *arguments)
{
    const auto *threads =
        arguments == nullptr ? nullptr : llvm::dyn_cast<llvm::ConstantInt>(arguments->getAggregateElement(0u));
    for (Kernel &kernel : program.kernels)
        if (kernel.function == &function && threads != nullptr && threads->getZExtValue() > 0)
            kernel.max_threads = uint32_t(std::min<uint64_t>(threads->getZExtValue(), VGC_CPU_MAX_THREADS));
}

/// Notes parameters that are __grid_constant__, and removes all annotations of variables.
void apply_grid_constants(Program &program, llvm::Module &module)
{
    llvm::SmallVector<llvm::CallInst *> notes;
    for (llvm::Function &function : module)
        if (function.getIntrinsicID() == llvm::Intrinsic::var_annotation)
            for (llvm::User *user : function.users())
                notes.push_back(llvm::cast<llvm::CallInst>(user));
    for (llvm::CallInst *note : notes) {
        llvm::StringRef text;
        const auto *argument = llvm::dyn_cast<llvm::Argument>(note->getArgOperand(0)->stripPointerCasts());
        if (argument != nullptr && llvm::getConstantStringInfo(note->getArgOperand(1), text) &&
            text == "vgc.grid_constant")
            for (Kernel &kernel : program.kernels)
                for (Param &param : kernel.params)
                    param.is_grid_constant |= kernel.function == argument->getParent() && param.num_args == 1 &&
                                              param.first_arg == argument->getArgNo();
        note->eraseFromParent();
    }
}

/// Notes the extents of __cluster_dims__.
void apply_clusters(Program &program, llvm::Function &function, const llvm::Constant *arguments)
{
    uint64_t size = 1;
    for (Kernel &kernel : program.kernels)
        for (unsigned axis = 0; kernel.function == &function && arguments != nullptr && axis < 3; axis++) {
            const auto *blocks = llvm::dyn_cast_or_null<llvm::ConstantInt>(arguments->getAggregateElement(axis));
            const uint64_t extent = blocks == nullptr ? 1 : blocks->getLimitedValue(VGC_CPU_MAX_CLUSTER + 1);
            kernel.cluster[axis] = uint32_t(extent);
            size *= extent;
        }
    if (size == 0 || size > VGC_CPU_MAX_CLUSTER)
        fail("kernel '" + function.getName() + "' has clusters of " + (size == 0 ? "no" : "too many") +
             " blocks (allowed: 1 to " + llvm::Twine(int(VGC_CPU_MAX_CLUSTER)) + ")");
    if (size > 1)
        function.addFnAttr(CLUSTERS);
}

/// True for texture<...> and surface<...>, whose first member is that of texture_types.h.
bool is_reference(const llvm::GlobalVariable &variable)
{
    for (auto *type = llvm::dyn_cast<llvm::StructType>(variable.getValueType()); type != nullptr;) {
        if (type->hasName() && type->getName().starts_with("struct.__vgc_bound"))
            return true;
        type = type->getNumElements() == 0 ? nullptr : llvm::dyn_cast<llvm::StructType>(type->getElementType(0));
    }
    return false;
}

/// Makes texture and surface references variables that begin with zeroes: clang leaves them undefined.
void clear_references(llvm::Module &module)
{
    for (llvm::GlobalVariable &variable : module.globals())
        if (variable.hasInitializer() && llvm::isa<llvm::UndefValue>(variable.getInitializer()) &&
            is_reference(variable))
            variable.setInitializer(llvm::Constant::getNullValue(variable.getValueType()));
}

/// True for a variable that no other source can name. clang gives `static` ones that host code uses external linkage.
bool is_own(const llvm::GlobalVariable &variable)
{
    const llvm::StringRef name = variable.getName();
    return variable.hasInternalLinkage() || name.starts_with("_ZL") || name.starts_with("_ZN12_GLOBAL__N_1");
}

/// Collects __device__ and __constant__ variables: those neither constant in IR nor shared (which begin undefined).
void collect_globals(llvm::Module &module, Program &program)
{
    llvm::SmallPtrSet<const llvm::GlobalVariable *, 16> known;
    for (const Global &global : program.globals)
        known.insert(global.variable);
    for (llvm::GlobalVariable &variable : module.globals()) {
        if (variable.isConstant() && !variable.isDeclaration())
            variable.setExternallyInitialized(false); // so that those of host code, which clang keeps, are dropped
        if (variable.isDeclaration() || variable.isConstant() || variable.getName().starts_with("llvm.") ||
            llvm::isa<llvm::UndefValue>(variable.getInitializer()) || known.contains(&variable))
            continue;
        llvm::SmallVector<llvm::DIGlobalVariableExpression *, 1> expressions;
        variable.getDebugInfo(expressions);
        std::string name = variable.getName().str();
        if (is_own(variable) && !expressions.empty())
            name = expressions[0]->getVariable()->getName().str();
        if (name == "__vgc_heap") // of malloc(), which is not the guest's
            continue;
        variable.setExternallyInitialized(true);
        program.globals.push_back({&variable, name});
    }
}

/// Ends names of kernels and variables that several units have for themselves in `@` and the unit's name.
void tell_units_apart(Program &program)
{
    std::map<std::string, unsigned> kernels, short_names, globals;
    for (const Kernel &kernel : program.kernels) {
        kernels[kernel.name]++;
        short_names[kernel.short_name]++;
    }
    for (const Global &global : program.globals)
        globals[global.name]++;
    for (Kernel &kernel : program.kernels)
        if (const llvm::Attribute unit = kernel.function->getFnAttribute(UNIT); unit.isValid()) {
            const std::string suffix = "@" + unit.getValueAsString().str();
            kernel.name += kernels[kernel.name] > 1 ? suffix : "";
            kernel.short_name += short_names[kernel.short_name] > 1 ? suffix : "";
        }
    for (Global &global : program.globals)
        if (const llvm::Attribute unit = global.variable->getAttribute(UNIT); unit.isValid())
            global.name += globals[global.name] > 1 ? "@" + unit.getValueAsString().str() : "";
}

} // namespace

void keep_globals(llvm::Module &module, const Program &program)
{
    llvm::SmallVector<llvm::GlobalValue *> kept;
    for (const Global &global : program.globals)
        kept.push_back(global.variable);
    llvm::appendToCompilerUsed(module, kept);
}

void collect(llvm::Module &module, Program &program, bool may_be_empty)
{
    for_annotations<llvm::Function>(module,
                                    [&](llvm::Function &function, llvm::StringRef text, const llvm::Constant *) {
                                        if (text == "vgc.kernel")
                                            add_kernel(program, function);
                                    });
    for_annotations<llvm::Function>(
        module, [&](llvm::Function &function, llvm::StringRef text, const llvm::Constant *arguments) {
            if (text == "vgc.bounds")
                apply_bounds(program, function, arguments);
            if (text == "vgc.cluster")
                apply_clusters(program, function, arguments);
        });
    for_annotations<llvm::GlobalVariable>(
        module, [](llvm::GlobalVariable &variable, llvm::StringRef text, const llvm::Constant *) {
            if (text == "vgc.constant")
                variable.addAttribute(CONSTANT);
        });
    apply_grid_constants(program, module);
    clear_references(module);
    collect_globals(module, program);
    tell_units_apart(program);
    for (const char *name : {"llvm.global.annotations", "llvm.compiler.used", "llvm.used"})
        if (llvm::GlobalVariable *list = module.getGlobalVariable(name))
            list->eraseFromParent();
    keep_globals(module, program);
    if (program.kernels.empty() && program.globals.empty() && !may_be_empty)
        fail("the source defines no kernel (a __global__ function; templates need an instantiation)");
}

} // namespace vgc
