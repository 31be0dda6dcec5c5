#include "local_code.h"
#include "module_text.h"
#include "vgc_local.h"

#include <algorithm>
#include <fnmatch.h>

namespace mynvcc
{
namespace
{

/// Primitives of vgc_local_support.c.
const std::set<std::string> PRIMITIVES = {
    "__vgc_tid_x",       "__vgc_tid_y",       "__vgc_tid_z",       "__vgc_ntid_x",      "__vgc_ntid_y",
    "__vgc_ntid_z",      "__vgc_ctaid_x",     "__vgc_ctaid_y",     "__vgc_ctaid_z",     "__vgc_nctaid_x",
    "__vgc_nctaid_y",    "__vgc_nctaid_z",    "__vgc_linear_tid",  "__vgc_laneid",      "__vgc_warpid",
    "__vgc_lanemask_eq", "__vgc_lanemask_lt", "__vgc_lanemask_le", "__vgc_lanemask_gt", "__vgc_lanemask_ge",
    "__vgc_trap",        "__vgc_globaltimer", "__vgc_printf",      "__vgc_assert_fail"};
/// Those that wait for other threads of the block.
const std::set<std::string> WAITS = {"__vgc_barrier", "__vgc_barrier_reduce", "__vgc_yield", "__vgc_warp32",
                                     "__vgc_warp64"};
/// What others are for, by the beginnings of their names.
const std::pair<const char *, const char *> PURPOSES[] = {{"__vgc_heap", "malloc() and new in kernels"},
                                                          {"__vgc_tex", "textures"},
                                                          {"__vgc_surf", "surfaces"},
                                                          {"__vgc_grid_barrier", "barriers of the grid"},
                                                          {"__vgc_cluster", "clusters"},
                                                          {"__vgc_nclusterid", "clusters"},
                                                          {"__vgc_mbarrier", "barriers in shared memory"},
                                                          {"__vgc_shared", "addresses of shared memory"},
                                                          {"__vgc_smid", "numbers of multiprocessors"},
                                                          {"cuda", "CUDA's API in kernels"}};
const char DYNAMIC[] = "vgc.dynamic_shared";

/// One argument as LLVM has it: of a class in registers, there may be two, or none.
struct Piece {
    std::string type, attributes, name;

    bool is_in_memory() const
    {
        return attributes.find("byval(") != std::string::npos;
    }
    bool is_of_class() const
    {
        return name.find(".coerce") != std::string::npos;
    }
    /// Another follows, 8 bytes further.
    bool is_first_of_two() const
    {
        const size_t at = name.find(".coerce");
        return at != std::string::npos && name.compare(at + 7, 1, "0") == 0;
    }
};

/// The end of a type that begins at `at`.
size_t type_end(const std::string &text, size_t at)
{
    int depth = 0;
    for (; at < text.size() && (depth > 0 || (text[at] != ' ' && text[at] != ',')); at++) {
        depth += text[at] == '{' || text[at] == '<' || text[at] == '[' || text[at] == '(';
        depth -= text[at] == '}' || text[at] == '>' || text[at] == ']' || text[at] == ')';
    }
    return at;
}

Piece piece_of(const std::string &text)
{
    const size_t begin = text.find_first_not_of(' '), end = type_end(text, begin), name = text.rfind('%');
    Piece piece;
    piece.type = text.substr(begin, end - begin);
    if (name != std::string::npos && name >= end) {
        piece.name = text.substr(name + 1);
        piece.attributes = text.substr(end, name - end);
    }
    return piece;
}

std::vector<Piece> pieces_of(const std::string &head, size_t open)
{
    std::vector<Piece> pieces;
    std::string text;
    int depth = 0;
    for (size_t at = open + 1; depth >= 0 && at < head.size(); at++) {
        const char c = head[at];
        depth += c == '(' || c == '{' || c == '<' || c == '[';
        depth -= c == ')' || c == '}' || c == '>' || c == ']';
        if (depth < 0 || (depth == 0 && c == ',')) {
            if (!text.empty())
                pieces.push_back(piece_of(text));
            text.clear();
        } else {
            text += c;
        }
    }
    return pieces;
}

class Extraction
{
  public:
    Extraction(const std::string &text, const Words &patterns) : module(text), wanted(patterns)
    {
        pointer = module.has_typed_pointers() ? "i8*" : "ptr";
        pointer_to_pointer = module.has_typed_pointers() ? "i8**" : "ptr";
    }
    LocalCode run();

  private:
    bool is_wanted(const Symbol &kernel, const std::set<std::string> &marked) const;
    void take(const Symbol &kernel, bool is_marked);
    void take_function(const Symbol &function);
    std::set<std::string> reach(const Symbol &kernel) const;
    void check(const std::set<std::string> &reached) const;
    std::string pass(const Piece &piece, size_t parameter, size_t offset, size_t number);
    void entry(const Symbol &kernel, const std::vector<Parameter> &parameters);
    void describe(const Symbol &kernel, const std::vector<Parameter> &parameters, const std::set<std::string> &reached,
                  bool is_marked);
    std::string describe_variable(const Symbol &symbol);
    std::map<std::string, std::string> edits();

    Module module;
    Words wanted;
    LocalCode result;
    std::string pointer, pointer_to_pointer, entries, declarations, rows, function_rows;
    std::set<std::string> kept, managed, tabled;
    std::map<std::string, std::string> variables;
    size_t count = 0, num_functions = 0;
};

bool Extraction::is_wanted(const Symbol &kernel, const std::set<std::string> &marked) const
{
    const std::string name = module.source_name(kernel);
    return marked.count(kernel.name) != 0 || std::any_of(wanted.begin(), wanted.end(), [&](const std::string &pattern) {
               return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
                      fnmatch(pattern.c_str(), kernel.name.c_str(), 0) == 0;
           });
}

std::set<std::string> Extraction::reach(const Symbol &kernel) const
{
    std::set<std::string> reached = {kernel.name};
    std::vector<std::string> open = {kernel.name};
    while (!open.empty()) {
        const Symbol *const symbol = module.find(open.back());
        open.pop_back();
        if (symbol == nullptr)
            continue;
        for (const std::string &name : symbol->references)
            if (reached.insert(name).second)
                open.push_back(name);
    }
    return reached;
}

/// Raises Failure if the function does what differs between the sides: PTX, addresses of code, and what only goes well
/// if the lanes of a warp go in step.
void check_body(const Module &module, const Symbol &function)
{
    const Words lines = split(function.text, '\n');
    for (size_t i = 1; i < lines.size(); i++) {
        const std::string &line = lines[i];
        if (const size_t at = line.find(" asm "); at != std::string::npos && line.find("\"\"", at) == std::string::npos)
            throw Failure{"it uses inline assembly"};
        if (line.find(" volatile ") != std::string::npos)
            throw Failure{"it uses volatile memory"};
        if (starts_with(line, "    #dbg") || line.find(" call void @llvm.dbg") != std::string::npos)
            continue;
        const bool is_call = line.find(" call ") != std::string::npos || line.find(" invoke ") != std::string::npos;
        for (size_t at = line.find('%'); is_call && at != std::string::npos; at = line.find('%', at + 1)) {
            const size_t end = line.find_first_of(" ,()*", at);
            if (end != std::string::npos && line[end] == '(')
                throw Failure{"it calls functions by their addresses, or virtual ones"};
        }
        for (size_t at = line.find('@'); at != std::string::npos; at = line.find('@', at + 1)) {
            const std::string name = name_at(line, at + 1);
            const Symbol *const symbol = module.find(name);
            if (starts_with(name, "_ZTV"))
                throw Failure{"it makes objects with virtual functions"};
            if (symbol != nullptr && symbol->is_function && line.compare(at + 1 + name.size(), 1, "(") != 0)
                throw Failure{"it takes the address of function '" + name + "'"};
        }
    }
}

void check_variable(const Module &module, const Symbol &variable, const std::set<std::string> &managed)
{
    if (managed.count(variable.name) != 0)
        throw Failure{"it uses managed variable '" + variable.name + "'"};
    for (const std::string &other : variable.references)
        if (const Symbol *const target = module.find(other);
            target != nullptr && (target->is_function || target->is_variable()))
            throw Failure{"it uses variable '" + variable.name + "', which begins with an address"};
}

/// Raises Failure with what a CPU version cannot do.
void Extraction::check(const std::set<std::string> &reached) const
{
    for (const std::string &name : reached) {
        const Symbol *const symbol = module.find(name);
        if (symbol == nullptr)
            continue;
        if (symbol->is_function && symbol->is_defined)
            check_body(module, *symbol);
        if (symbol->is_variable())
            check_variable(module, *symbol, managed);
        if (symbol->is_defined || symbol->is_dynamic() || starts_with(name, "llvm.") || PRIMITIVES.count(name) != 0 ||
            WAITS.count(name) != 0)
            continue;
        for (const auto &[begin, purpose] : PURPOSES)
            if (starts_with(name, begin))
                throw Failure{std::string("it uses ") + purpose};
        if (starts_with(name, "__vgc_") || starts_with(name, "_Z") || !symbol->is_function)
            throw Failure{"it uses '" + name + "', which is not in this file"};
    }
}

/// Loads a piece from where the caller has put the parameter. Returns it as an argument of a call.
std::string Extraction::pass(const Piece &piece, size_t parameter, size_t offset, size_t number)
{
    const std::string n = std::to_string(number);
    const bool is_typed = pointer != "ptr";
    entries += "  %slot" + n + " = getelementptr " + pointer + ", " + pointer_to_pointer + " %arguments, i64 " +
               std::to_string(parameter) + "\n  %at" + n + " = load " + pointer + ", " + pointer_to_pointer + " %slot" +
               n + "\n  %to" + n + " = getelementptr i8, " + pointer + " %at" + n + ", i64 " + std::to_string(offset) +
               "\n";
    const std::string wanted_pointer = piece.is_in_memory() ? piece.type : piece.type + "*";
    std::string at = "%to" + n;
    if (is_typed) {
        entries += "  %typed" + n + " = bitcast i8* %to" + n + " to " + wanted_pointer + "\n";
        at = "%typed" + n;
    }
    if (piece.is_in_memory())
        return piece.type + piece.attributes + at;
    entries += "  %value" + n + " = load " + piece.type + ", " + (is_typed ? wanted_pointer : "ptr") + " " + at +
               ", align 1\n";
    return piece.type + piece.attributes + (piece.attributes.empty() ? " " : "") + "%value" + n;
}

/// A function that calls the kernel with arguments in memory. Classes are passed as the ABI of x86-64 has it.
void Extraction::entry(const Symbol &kernel, const std::vector<Parameter> &parameters)
{
    const std::string head = kernel.head(), kept_entries = entries;
    const size_t open = head.find('(', head.find("@" + kernel.name));
    const std::vector<Piece> pieces = pieces_of(head, open);
    std::string name = "vgc_local_" + std::to_string(count), call;
    const size_t group = head.rfind(" #");
    const std::string attributes =
        group == std::string::npos ? "" : head.substr(group, head.find_first_of(" {", group + 1) - group);
    entries += "\ndefine void @" + name + "(" + pointer_to_pointer + " %arguments)" + attributes + " {\n";
    size_t used = 0;
    for (size_t i = 0; i < parameters.size(); i++) {
        const bool is_class = parameters[i].is_class;
        const Piece *const piece = used < pieces.size() ? &pieces[used] : nullptr;
        const bool fits = piece != nullptr && is_class == (piece->is_in_memory() || piece->is_of_class());
        if (!fits && is_class && parameters[i].bytes == 1)
            continue; // an empty class is not passed
        if (!fits) {
            entries = kept_entries;
            throw Failure{"its parameter " + std::to_string(i + 1) + " is of a kind that cannot be passed"};
        }
        const size_t last = used + (piece->is_first_of_two() ? 1 : 0);
        for (size_t first = used; used <= last && used < pieces.size(); used++)
            call += (call.empty() ? "" : ", ") + pass(pieces[used], i, 8 * (used - first), used);
    }
    if (used != pieces.size()) {
        entries = kept_entries;
        throw Failure{"its parameters are of kinds that cannot be passed"};
    }
    entries += "  call void @" + kernel.name + "(" + call + ")\n  ret void\n}\n";
}

std::string c_text(const std::string &name)
{
    std::string text = "\"";
    for (char c : name)
        text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return text + "\"";
}

void Extraction::describe(const Symbol &kernel, const std::vector<Parameter> &parameters,
                          const std::set<std::string> &reached, bool is_marked)
{
    const std::string number = std::to_string(count);
    std::string sizes, own;
    unsigned flags = is_marked ? VGC_LOCAL_MARKED : 0;
    size_t num_variables = 0;
    for (const Parameter &parameter : parameters)
        sizes += std::to_string(parameter.bytes) + ", ";
    for (const std::string &name : reached) {
        const Symbol *const symbol = module.find(name);
        flags |= WAITS.count(name) != 0 ? VGC_LOCAL_WAITS : 0;
        if (symbol == nullptr || !symbol->is_variable())
            continue;
        own += "{" + c_text(name) + ", " + describe_variable(*symbol) + "}, ";
        num_variables++;
    }
    declarations += "void vgc_local_" + number + "(void **arguments);\nstatic const unsigned sizes_" + number +
                    "[] = {" + sizes + "0};\nstatic const struct vgc_local_variable variables_" + number + "[] = {" +
                    own + "{0, 0, 0}};\n";
    rows += "    {" + c_text(kernel.name) + ", " + c_text(module.source_name(kernel)) + ", vgc_local_" + number + ", " +
            std::to_string(flags) + ", " + std::to_string(parameters.size()) + ", sizes_" + number + ", " +
            std::to_string(num_variables) + ", variables_" + number + "},\n";
}

/// Declares a variable and its size, once, for C. Returns their addresses.
std::string Extraction::describe_variable(const Symbol &symbol)
{
    const auto [found, is_new] = variables.emplace(symbol.name, std::to_string(variables.size()));
    const std::string &number = found->second;
    if (is_new) {
        const std::string head = symbol.head();
        const size_t begin = head.find(" global ") + 8;
        const std::string type = head.substr(begin, type_end(head, begin) - begin);
        const std::string address = pointer == "ptr" ? "ptr" : type + "*";
        entries += "\n@vgc_size_" + number + " = constant i64 ptrtoint (" + address + " getelementptr (" + type + ", " +
                   address + " null, i32 1) to i64)\n";
        declarations += "extern char variable_" + number + "[] __asm__(" + c_text(symbol.name) +
                        ");\nextern const unsigned long long vgc_size_" + number + ";\n";
    }
    return "variable_" + number + ", &vgc_size_" + number;
}

void Extraction::take(const Symbol &kernel, bool is_marked)
{
    try {
        const std::set<std::string> reached = reach(kernel);
        check(reached);
        const std::vector<Parameter> parameters = module.parameters(kernel);
        entry(kernel, parameters);
        describe(kernel, parameters, reached, is_marked);
        kept.insert(reached.begin(), reached.end());
        count++;
    } catch (const Failure &failure) {
        result.warnings.push_back("kernel '" + module.source_name(kernel) +
                                  "' gets no CPU version: " + failure.message);
    }
}

/// Takes a function for both sides that asks nothing of a running kernel.
void Extraction::take_function(const Symbol &function)
{
    const std::set<std::string> reached = reach(function);
    for (const std::string &name : reached) {
        const Symbol *const symbol = module.find(name);
        if (symbol != nullptr && (symbol->is_variable() || symbol->is_shared() || starts_with(name, "__vgc_")))
            return;
    }
    try {
        check(reached);
    } catch (const Failure &) {
        return;
    }
    const std::string number = std::to_string(num_functions++);
    tabled.insert(function.name);
    declarations += "void function_" + number + "(void) __asm__(" + c_text(function.name) + ");\n";
    function_rows +=
        "    {" + c_text(function.name) + ", " + c_text(module.source_name(function)) + ", function_" + number + "},\n";
    kept.insert(reached.begin(), reached.end());
}

/// Variables as a library of a process needs them: shared memory is each thread's of the process, which runs one block
/// at a time, and the device's variables have names that the table can refer to.
std::map<std::string, std::string> Extraction::edits()
{
    std::map<std::string, std::string> edited;
    const bool is_typed = pointer != "ptr";
    const std::string room = "[" + std::to_string(VGC_LOCAL_DYNAMIC_BYTES) + " x i8]";
    bool has_dynamic = false;
    for (const std::string &name : kept) {
        const Symbol *const symbol = module.find(name);
        if (symbol == nullptr)
            continue;
        std::string text = symbol->text;
        if (symbol->is_dynamic()) {
            const size_t begin = text.find(" global ") + 8;
            const std::string type = text.substr(begin, type_end(text, begin) - begin);
            const std::string target = std::string("@") + DYNAMIC;
            text = "@" + name + " = internal thread_local alias " + type + ", " +
                   (is_typed ? type + "* bitcast (" + room + "* " + target + " to " + type + "*)" : "ptr " + target) +
                   "\n";
            has_dynamic = true;
        } else if (symbol->is_shared() || symbol->is_variable()) {
            // other threads change them while a function waits: not what a compiler expects of internal variables
            if (const size_t at = text.find(" internal "); at != std::string::npos && at < text.find(" global "))
                text.replace(at, 10, " hidden ");
            if (symbol->is_shared())
                text.insert(text.find(" global "), " thread_local");
            if (const size_t at = text.find(" externally_initialized"); at != std::string::npos)
                text.erase(at, 23);
        } else if (tabled.count(name) != 0 && starts_with(text, "define internal ")) {
            text.replace(7, 8, "hidden");
        } else if (tabled.count(name) != 0 && starts_with(text, "define linkonce_odr ")) {
            text.replace(7, 12, "weak_odr"); // else nobody here keeps it
        } else {
            continue;
        }
        edited[name] = text;
    }
    if (has_dynamic)
        entries +=
            "\n@" + std::string(DYNAMIC) + " = hidden thread_local global " + room + " zeroinitializer, align 1024\n";
    return edited;
}

LocalCode Extraction::run()
{
    const std::set<std::string> marked = module.annotated("vgc.either");
    managed = module.annotated("vgc.managed");
    for (const std::string &name : module.annotated("vgc.kernel"))
        if (const Symbol *const kernel = module.find(name);
            kernel != nullptr && kernel->is_defined && is_wanted(*kernel, marked))
            take(*kernel, marked.count(name) != 0);
    for (const std::string &name : module.annotated("vgc.host"))
        if (const Symbol *const function = module.find(name);
            function != nullptr && function->is_function && function->is_defined)
            take_function(*function);
    result.is_empty = count + num_functions == 0;
    const std::map<std::string, std::string> edited = edits();
    result.text = module.text_of(kept, edited) + entries;
    result.table =
        "#include \"vgc_local.h\"\nvoid vgc_local_enter(struct vgc_local_here *here);\n" + declarations +
        "static const struct vgc_local_kernel kernels[] = {\n" + rows +
        "    {0}};\nstatic const struct vgc_local_function functions[] = {\n" + function_rows +
        "    {0}};\n__attribute__((visibility(\"default\"))) const struct vgc_local_table vgc_local_table = {" +
        std::to_string(VGC_LOCAL_VERSION) + ", " + std::to_string(count) + ", kernels, " +
        std::to_string(num_functions) + ", functions, vgc_local_enter};\n";
    return result;
}

} // namespace

LocalCode take_local_code(const std::string &text, const Words &patterns)
{
    return Extraction(text, patterns).run();
}

} // namespace mynvcc
