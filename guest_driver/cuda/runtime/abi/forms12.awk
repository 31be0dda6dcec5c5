# Writes an assembler file that gives a library what programs of CUDA 12 ask for, beside the functions of its own release:
# each name of libcudart.so.12 (second file), by its version there, leads to the function that serves CUDA 12. Functions
# that differ in the library's own release (first file) are called core_... there.
BEGIN {
    print ".text"
}
FNR == NR {
    differs[$1] = 1
    next
}
$1 ~ /^(cuda|__cuda|__hip)/ {
    print ".globl form12_" $1
    print ".type form12_" $1 ", @function"
    print ".symver form12_" $1 ", " $1 "@libcudart.so.12, remove"
    print "form12_" $1 ": jmp " ($1 in differs ? "core_" : "") $1
}
END {
    print ".section .note.GNU-stack, \"\", @progbits"
}
