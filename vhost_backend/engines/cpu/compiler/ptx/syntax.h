// Syntax tree of PTX: statements, and the operands of instructions.
#pragma once

#include <cstdint>
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

struct Operand {
    enum Kind {
        ARGUMENT, // %0: operand of the asm statement
        NAME,     // register, label, symbol or special register
        INTEGER,
        FLOAT32,
        FLOAT64,
        VECTOR,  // {a, b}
        ADDRESS, // [base + offset], [offset], [handle, {x, y}]
        PAIR,    // a|b
        SINK,    // _
    };
    Kind kind = SINK;
    Position at;
    std::string name;
    uint64_t bits = 0;     // of a literal; number of an argument
    bool inverted = false; // !p
    int64_t offset = 0;    // of an address
    std::vector<Operand> parts;
};

/// Registers of a declaration: one, or `count` with the names name0, name1, ...
struct Registers {
    std::string name;
    unsigned count = 0; // 0: one register, without a number
};

struct Statement {
    enum Kind { INSTRUCTION, REGISTERS, LABEL, BLOCK };
    Kind kind = INSTRUCTION;
    Position at;
    std::string name;                   // mnemonic, or label
    std::vector<std::string> modifiers; // without dots; the type, of a declaration of registers
    std::optional<Operand> guard;
    std::vector<Operand> operands;
    std::vector<Registers> registers;
    std::vector<Statement> body; // of a block
};

} // namespace vgc::ptx
