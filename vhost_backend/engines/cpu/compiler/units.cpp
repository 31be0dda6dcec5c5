// Takes a program of several sources apart, and checks each part that a guest may have forged.
#include "units.h"
#include "compiler.h"
#include "source.h"

#include <cstring>
#include <set>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

#include "vgc_wire.h"

namespace vgc
{
namespace
{

/// Takes parts off the front of a program.
class Reader
{
  public:
    explicit Reader(llvm::StringRef rest) : rest_(rest)
    {
    }
    llvm::StringRef take(uint64_t size, const llvm::Twine &what)
    {
        if (size > rest_.size())
            fail("the program ends in the middle of " + what + ": " + llvm::Twine(size) + " bytes announced, " +
                 llvm::Twine(rest_.size()) + " there");
        const llvm::StringRef part = rest_.take_front(size);
        rest_ = rest_.drop_front(size);
        return part;
    }
    template <typename Record> Record record(const llvm::Twine &what)
    {
        Record record;
        std::memcpy(&record, take(sizeof(record), what).data(), sizeof(record));
        return record;
    }
    size_t left() const
    {
        return rest_.size();
    }

  private:
    llvm::StringRef rest_;
};

/// Refuses names that clang would read as options, or that spoil the lines of its errors.
void check_name(llvm::StringRef name, uint32_t index)
{
    const auto *begin = reinterpret_cast<const llvm::UTF8 *>(name.data());
    const bool is_text =
        llvm::isLegalUTF8String(&begin, begin + name.size()) && !name.starts_with("-") &&
        llvm::none_of(name, [](unsigned char c) { return c < ' ' || c == '"' || c == '\\' || c == 127; });
    if (!is_text)
        fail("unit " + llvm::Twine(index) +
             " has a name that is not allowed (allowed: UTF-8 without control "
             "characters, quotes and backslashes, that does not begin with '-')");
}

std::vector<std::string> split_options(llvm::StringRef text, llvm::StringRef unit)
{
    if (!text.empty() && text.back() != '\0')
        fail("the last option of unit '" + unit + "' does not end in NUL");
    std::vector<std::string> words;
    while (!text.empty()) {
        llvm::StringRef word;
        std::tie(word, text) = text.split('\0');
        words.push_back(word.str());
    }
    return words;
}

Unit read_unit(Reader &reader, const vgc_unit &entry, const Options &options, uint32_t index)
{
    if (entry.name_len == 0 || entry.name_len > VGC_MAX_UNIT_NAME)
        fail("unit " + llvm::Twine(index) + " has a name of " + llvm::Twine(entry.name_len) + " bytes (allowed: 1 to " +
             llvm::Twine(int(VGC_MAX_UNIT_NAME)) + ")");
    if (entry.options_len > VGC_MAX_OPTIONS_BYTES)
        fail("unit " + llvm::Twine(index) + " has " + llvm::Twine(entry.options_len) +
             " bytes of options (allowed: " + llvm::Twine(int(VGC_MAX_OPTIONS_BYTES)) + ")");
    const std::string who = "unit " + std::to_string(index);
    const llvm::StringRef name = reader.take(entry.name_len, "the name of " + who);
    check_name(name, index);
    const llvm::StringRef words = reader.take(entry.options_len, "the options of unit '" + name + "'");
    Unit unit{options, reader.take(entry.text_len, "the text of unit '" + name + "'").str()};
    unit.options.input = name.str();
    unit.options.cuid = std::to_string(index);
    add_guest_options(unit.options, split_options(words, name));
    return unit;
}

/// Refuses units that differ in an option of the whole program.
void check_same(const Options &unit, const Options &first)
{
    const char *name = unit.flush_denormals != first.flush_denormals ? "-ftz=true or --use_fast_math"
                       : unit.lockstep != first.lockstep             ? "--lockstep"
                       : unit.checks != first.checks         ? "--memcheck, --initcheck, --racecheck or --leak-check"
                       : unit.heap_bytes != first.heap_bytes ? "--malloc-heap-size"
                                                             : nullptr;
    if (name != nullptr)
        fail("units '" + first.input + "' and '" + unit.input + "' differ in " + name +
             ", which must be the same for all units");
}

} // namespace

std::vector<Unit> read_units(const Options &options)
{
    const std::string program = read_source(options);
    if (!options.name_expressions.empty())
        fail("--name-expression is for the program (allowed: for the unit that has the template)");
    Reader reader(program);
    const auto head = reader.record<vgc_units>("its head");
    if (head.reserved != 0)
        fail("the program's head has " + llvm::Twine(head.reserved) + " in a reserved field (allowed: 0)");
    if (head.num_units == 0 || head.num_units > VGC_MAX_UNITS)
        fail("the program has " + llvm::Twine(head.num_units) + " units (allowed: 1 to " +
             llvm::Twine(int(VGC_MAX_UNITS)) + ")");
    std::vector<vgc_unit> entries;
    for (uint32_t i = 0; i < head.num_units; i++)
        entries.push_back(reader.record<vgc_unit>("the list of units"));
    std::vector<Unit> units;
    std::set<std::string> names;
    for (uint32_t i = 0; i < head.num_units; i++) {
        units.push_back(read_unit(reader, entries[i], options, i));
        if (!names.insert(units[i].options.input).second)
            fail("two units have the name '" + units[i].options.input + "'");
        check_same(units[i].options, units[0].options);
    }
    if (reader.left() != 0)
        fail(llvm::Twine(reader.left()) + " bytes follow the last unit (allowed: 0)");
    return units;
}

} // namespace vgc
