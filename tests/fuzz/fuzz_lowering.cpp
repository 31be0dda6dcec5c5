// PTX modules to LLVM's IR: any text gives a module that LLVM finds sound, or an error. Texts are changed word by word,
// so that most of them can be parsed.
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "crash.h"
#include "options.h"
#include "ptx/module.h"

#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/// LLVM's library is not instrumented: containers that it has filled are not marked as its own code would.
extern "C" const char *__asan_default_options()
{
    return "detect_container_overflow=0";
}

namespace vgc
{

struct Refused {
};

void fail(const llvm::Twine &message)
{
    if (message.isTriviallyEmpty())
        abort();
    throw Refused();
}

void note_step(const char *)
{
}

void note_function(llvm::StringRef)
{
}

} // namespace vgc

namespace
{

const llvm::TargetMachine &machine()
{
    static const std::unique_ptr<llvm::TargetMachine> made = [] {
        llvm::InitializeNativeTarget();
        std::string error;
        const llvm::Target *target = llvm::TargetRegistry::lookupTarget(vgc::TRIPLE, error);
        return std::unique_ptr<llvm::TargetMachine>(
            target->createTargetMachine(vgc::TRIPLE, "x86-64-v3", "", llvm::TargetOptions(), llvm::Reloc::PIC_));
    }();
    return *made;
}

using Words = std::vector<std::string_view>;

bool is_in_word(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '%' || c == '$';
}

/// Words of letters and digits, rows of spaces, and single characters; together they are the text.
Words split(std::string_view text)
{
    Words words;
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
        const char first = text[begin];
        end = begin + 1;
        while (end < text.size() &&
               ((is_in_word(first) && is_in_word(text[end])) || (first == ' ' && text[end] == ' ')))
            end++;
        words.push_back(text.substr(begin, end - begin));
    }
    return words;
}

/// Modifiers, types, numbers and signs that statements have.
const Words KNOWN =
    split("u8 u16 u32 u64 s8 s16 s32 s64 b8 b16 b32 b64 b128 f16 f16x2 bf16 bf16x2 tf32 f32 f64 pred v2 v4 "
          "rn rz rm rp rna rni rzi ftz sat hi lo wide cc approx full global shared local const param "
          "volatile relaxed acquire release sync aligned 0 1 2 31 32 63 64 0x7fffffff "
          "0xffffffffffffffff 0f7FC00000 0d7FF0000000000000 -1 @!|[]{}+,;_");

class Mutation
{
  public:
    Mutation(Words words, unsigned seed) : words_(std::move(words)), random_(seed)
    {
    }
    std::string run()
    {
        for (unsigned left = 1 + below(4); left > 0 && !words_.empty(); left--)
            change();
        std::string text;
        for (const std::string_view word : words_)
            text += word;
        return text;
    }

  private:
    size_t below(size_t end)
    {
        return random_() % end;
    }
    size_t any()
    {
        return below(words_.size());
    }
    std::string_view known()
    {
        return KNOWN[below(KNOWN.size())];
    }
    /// First word behind the `;` or brace before a word: where its statement begins.
    size_t statement(size_t at)
    {
        while (at > 0 && words_[at - 1] != ";" && words_[at - 1] != "{" && words_[at - 1] != "}")
            at--;
        return at;
    }
    void change()
    {
        switch (below(7)) {
        case 0:
            words_[any()] = words_[any()];
            break;
        case 1:
            std::swap(words_[any()], words_[any()]);
            break;
        case 2:
            words_[any()] = known();
            break;
        case 3:
            words_.insert(words_.begin() + ptrdiff_t(any()), known());
            break;
        case 4:
            words_.erase(words_.begin() + ptrdiff_t(any()));
            break;
        case 5:
            erase_statement();
            break;
        default:
            copy_statement();
        }
    }
    void erase_statement()
    {
        const size_t end = any(), begin = statement(end);
        words_.erase(words_.begin() + ptrdiff_t(begin), words_.begin() + ptrdiff_t(end));
    }
    void copy_statement()
    {
        const size_t end = any(), begin = statement(end);
        const Words copy(words_.begin() + ptrdiff_t(begin), words_.begin() + ptrdiff_t(end));
        words_.insert(words_.begin() + ptrdiff_t(statement(any())), copy.begin(), copy.end());
    }

    Words words_;
    std::minstd_rand random_;
};

size_t store(const std::string &text, uint8_t *data, size_t max_size)
{
    const size_t size = std::min(text.size(), max_size);
    std::copy_n(text.begin(), size, data);
    return size;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    if (seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    const std::string text(reinterpret_cast<const char *>(data), size);
    return store(Mutation(split(text), seed).run(), data, max_size);
}

/// Puts a part of the second text between two words of the first.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2,
                                            uint8_t *out, size_t max_size, unsigned seed)
{
    const std::string first(reinterpret_cast<const char *>(data1), size1);
    const std::string second(reinterpret_cast<const char *>(data2), size2);
    std::minstd_rand random(seed);
    const size_t place = first.rfind(';', random() % (size1 + 1));
    const size_t begin = second.rfind(';', random() % (size2 + 1));
    if (place == std::string::npos || begin == std::string::npos)
        return store(first, out, max_size);
    const size_t end = second.find(';', begin + 1);
    const std::string part = end == std::string::npos ? "" : second.substr(begin + 1, end - begin);
    return store(first.substr(0, place + 1) + part + first.substr(place + 1), out, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const std::string text(reinterpret_cast<const char *>(data), size);
    llvm::LLVMContext context;
    vgc::Options options;
    vgc::Program program;
    options.input = "source.ptx";
    try {
        const auto module = vgc::ptx::lower_module(context, machine(), options, text, program);
        vgc::ptx::find_linked(*module, program);
        if (llvm::verifyModule(*module, &llvm::errs()))
            abort();
    } catch (const vgc::Refused &) {
    }
    return 0;
}
