// Syntax tree of PTX: statements, and the operands of instructions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vgc::ptx
{

/// Place in a text; both count from 1.
struct Position {
    unsigned line = 1;
    unsigned column = 1;
};

/// Error in a text.
struct Problem {
    Position at;
    std::string text;
};

/// State space of a variable, or of an access to memory.
enum class Space { GENERIC, SHARED, GLOBAL, LOCAL, CONSTANT, PARAMETER, REGISTER };

struct Operand {
    enum Kind {
        ARGUMENT, // %0: operand of the asm statement
        NAME,     // register, label, symbol (perhaps with an offset) or special register
        INTEGER,
        FLOAT32,
        FLOAT64,
        VECTOR,  // {a, b}
        ADDRESS, // [base + offset], [offset], [handle, {x, y}]
        PAIR,    // a|b
        LIST,    // (a, b): arguments or results of a call
        SINK,    // _
    };
    Kind kind = SINK;
    Position at;
    std::string name;      // with what follows it after dots; an argument has only that
    uint64_t bits = 0;     // of a literal; number of an argument
    bool inverted = false; // !p
    int64_t offset = 0;    // of an address, or from a symbol
    uint64_t index = 0;    // of an element: symbol[index]
    uint64_t mask = 0;     // of a byte of an address in an initialiser: 0xFF00(symbol)
    std::vector<Operand> parts;
};

/// Registers of a declaration: one, or `count` with the names name0, name1, ...
struct Registers {
    std::string name;
    unsigned count = 0; // 0: one register, without a number
};

/// Directive that says what other modules know of a variable or function; OWN: none, it is the module's own.
enum class Linkage { OWN, VISIBLE, WEAK, COMMON, EXTERN };

/// Element of an array's initialiser.
struct Element {
    uint64_t index; // of the array, whose vectors are arrays, too
    Operand value;  // number or name
};

/// Variable or parameter.
struct Variable {
    Position at;
    Space space = Space::GLOBAL;
    std::string type;    // of an element, without the dot
    unsigned vector = 1; // components of an element
    std::string name;
    uint64_t align = 0; // 0: as its type has it
    bool is_array = false;
    uint64_t count = 1;               // of elements; 0: an array without a size
    std::vector<uint64_t> dimensions; // of an array
    bool is_pointer = false;
    Linkage linkage = Linkage::OWN;
    std::vector<Element> initialiser; // by their indices
};

struct Statement {
    enum Kind { INSTRUCTION, REGISTERS, VARIABLES, LABEL, TARGETS, BLOCK, SOURCE };
    Kind kind = INSTRUCTION;
    Position at;
    std::string name;                   // mnemonic, or label
    std::vector<std::string> modifiers; // without dots; the type, of a declaration of registers
    std::optional<Operand> guard;
    std::vector<Operand> operands; // labels, of TARGETS
    std::vector<Registers> registers;
    std::vector<Variable> variables;
    std::vector<Statement> body; // of a block
    uint64_t file = 0;           // of SOURCE: place in the source that the following statements were made of
    Position place;              // the same
};

/// Kernel (`.entry`) or function.
struct Function {
    Position at;
    std::string name;
    bool is_entry = false;
    bool has_body = false; // or is a declaration
    Linkage linkage = Linkage::OWN;
    std::vector<Variable> results;
    std::vector<Variable> parameters;
    uint32_t threads[3] = {0, 0, 0}; // most of a block; 0: not said
    bool is_exact = false;           // a block must have just these
    uint32_t cluster[3] = {0, 0, 0}; // blocks of a cluster; 0: not said
    std::vector<Statement> body;
};

/// Further name of a function.
struct Alias {
    Position at;
    std::string name;
    std::string target;
};

struct Module {
    bool has_version = false;
    std::map<uint64_t, std::string> files; // names of sources, by number
    std::vector<Variable> variables;
    std::vector<Function> functions;
    std::vector<Alias> aliases;
};

} // namespace vgc::ptx
