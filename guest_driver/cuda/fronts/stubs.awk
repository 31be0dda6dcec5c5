# Writes an assembler file with a function for each name: a jump through its slot. Until front.c has filled the slots,
# they lead to first steps that keep the arguments, have the function found, and jump there.
BEGIN {
    print "#if !defined(__x86_64__)"
    print "#error \"libcuda.so.1 and libnvrtc are written for x86-64\""
    print "#endif"
    print ".text"
    print "first:" # the index is on the stack: with the return address, a multiple of 16 bytes
    registers = "rdi rsi rdx rcx r8 r9"
    count = split(registers, names, " ")
    for (i = 1; i <= count; i++)
        print "    pushq %" names[i]
    print "    subq $16, %rsp"
    print "    movsd %xmm0, (%rsp)" # no function has more than two numbers with a fraction
    print "    movsd %xmm1, 8(%rsp)"
    print "    movq 64(%rsp), %rdi"
    print "    call vgc_resolve"
    print "    movsd (%rsp), %xmm0"
    print "    movsd 8(%rsp), %xmm1"
    print "    addq $16, %rsp"
    for (i = count; i >= 1; i--)
        print "    popq %" names[i]
    print "    addq $8, %rsp"
    print "    jmp *%rax"
}
{
    index_of[NR - 1] = $1
    print ".globl " $1
    print ".type " $1 ", @function"
    print $1 ":"
    print "    jmp *vgc_slots + " 8 * (NR - 1) "(%rip)"
    print "first_" (NR - 1) ":"
    print "    pushq $" (NR - 1)
    print "    jmp first"
}
END {
    print ".section .data.rel, \"aw\", @progbits"
    print ".align 8"
    print ".globl vgc_slots"
    print ".hidden vgc_slots"
    print "vgc_slots:"
    for (i = 0; i < NR; i++)
        print "    .quad first_" i
    print ".section .data.rel.ro, \"aw\", @progbits"
    print ".align 8"
    print ".globl vgc_names"
    print ".hidden vgc_names"
    print "vgc_names:"
    for (i = 0; i < NR; i++)
        print "    .quad name_" i
    print ".section .rodata"
    print ".align 8"
    print ".globl vgc_num_names"
    print ".hidden vgc_num_names"
    print "vgc_num_names:"
    print "    .quad " NR
    for (i = 0; i < NR; i++) {
        print "name_" i ":"
        print "    .string \"" index_of[i] "\""
    }
    print ".section .note.GNU-stack, \"\", @progbits"
}
