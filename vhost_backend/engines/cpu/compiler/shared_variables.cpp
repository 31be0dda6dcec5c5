// Shared variables of classes that need no constructor but have a destructor, such as libcu++'s barriers. nvcc takes
// them, and never calls the destructor; clang refuses them unless they are said to have no initial value.
#include "shared_variables.h"

#include "clang/AST/ASTContext.h"
#include "clang/AST/DeclCXX.h"
#include "clang/Lex/Preprocessor.h"
#include "clang/Sema/ParsedAttr.h"
#include "clang/Sema/Sema.h"

namespace
{

/// The attribute that __shared__ gives variables beside CUDA's own (kernels/cpu/include/vgc_builtins.h).
class SharedVariable : public clang::ParsedAttrInfo
{
  public:
    SharedVariable()
    {
        static constexpr Spelling SPELLINGS[] = {{clang::ParsedAttr::AS_GNU, "vgc_shared"}};
        Spellings = SPELLINGS;
    }

    bool diagAppertainsToDecl(clang::Sema &, const clang::ParsedAttr &, const clang::Decl *) const override
    {
        return true;
    }

    AttrHandling handleDeclAttribute(clang::Sema &sema, clang::Decl *decl, const clang::ParsedAttr &) const override
    {
        auto *variable = llvm::dyn_cast<clang::VarDecl>(decl);
        if (variable == nullptr)
            return AttributeApplied;
        if (variable->hasExternalStorage()) {
            variable->addAttr(clang::SectionAttr::CreateImplicit(sema.Context, vgc::SHARED_SECTION));
            return AttributeApplied;
        }
        const clang::QualType type = sema.Context.getBaseElementType(variable->getType());
        const clang::CXXRecordDecl *record = type->getAsCXXRecordDecl();
        if (record != nullptr && !record->isDependentType() && sema.isCompleteType(variable->getLocation(), type) &&
            record->hasTrivialDefaultConstructor() && !record->hasTrivialDestructor())
            variable->addAttr(clang::LoaderUninitializedAttr::CreateImplicit(sema.Context));
        return AttributeApplied;
    }
};

} // namespace

namespace vgc
{

void SharedAlignment::take(clang::Token &token)
{
    const clang::IdentifierInfo *name = token.isAnyIdentifier() ? token.getIdentifierInfo() : nullptr;
    if (name != nullptr && name->isStr("vgc_shared"))
        seen_ = 1;
    else if (seen_ > 0 && seen_ < 3 && token.is(clang::tok::r_paren))
        seen_++;
    else if (seen_ == 3 && token.is(clang::tok::kw_alignas))
        token.setKind(clang::tok::kw__Alignas);
    else
        seen_ = 0;
}

void forget_device_of_shared(clang::Preprocessor &preprocessor, clang::Token &token)
{
    if (!token.isAnyIdentifier() || !token.getIdentifierInfo()->isStr("device") || !token.getLocation().isMacroID())
        return;
    const clang::SourceManager &sources = preprocessor.getSourceManager();
    const clang::SourceLocation macro = sources.getImmediateExpansionRange(token.getLocation()).getBegin();
    const auto [file, offset] = sources.getDecomposedSpellingLoc(macro);
    const llvm::StringRef text = sources.getBufferData(file), ends = ";{}()[]=\n";
    const size_t before = text.take_front(offset).find_last_of(ends), begin = before == text.npos ? 0 : before + 1;
    if (text.slice(begin, text.find_first_of(ends, offset)).contains("__shared__"))
        token.setIdentifierInfo(preprocessor.getIdentifierInfo("unused"));
}

} // namespace vgc

static clang::ParsedAttrInfoRegistry::Add<SharedVariable> registration("vgc-shared",
                                                                       "shared variables as nvcc has them");
