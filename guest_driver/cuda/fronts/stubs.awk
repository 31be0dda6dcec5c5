# Writes an assembler file with a function for each name: a jump through its slot. Until the slots are filled, they lead
# to first steps that keep the arguments, have the function found, and jump there. In a program that is traced they lead
# to steps that jump there, too, and have the function return to `left`, which notes that the call has ended.
function keep(i) { # the arguments: after it the stack is at a multiple of 16 bytes if it was before
    for (i = 1; i <= count; i++)
        print "    pushq %" names[i]
    print "    subq $16, %rsp"
    print "    movsd %xmm0, (%rsp)" # no function has more than two numbers with a fraction
    print "    movsd %xmm1, 8(%rsp)"
}
function take_back(i) {
    print "    movsd (%rsp), %xmm0"
    print "    movsd 8(%rsp), %xmm1"
    print "    addq $16, %rsp"
    for (i = count; i >= 1; i--)
        print "    popq %" names[i]
}
BEGIN {
    print "#if !defined(__x86_64__)"
    print "#error \"libcuda.so.1 and libnvrtc are written for x86-64\""
    print "#endif"
    print ".text"
    count = split("rdi rsi rdx rcx r8 r9", names, " ")
    print "first:" # the index is on the stack: with the return address, a multiple of 16 bytes
    keep()
    print "    movq 64(%rsp), %rdi"
    print "    call vgc_resolve"
    take_back()
    print "    addq $8, %rsp"
    print "    jmp *%rax"
    print "traced:"
    keep()
    print "    movq 64(%rsp), %rdi"
    print "    leaq 72(%rsp), %rsi" # where the return address is
    print "    leaq left(%rip), %rdx"
    print "    call vgc_trace_enter"
    take_back()
    print "    addq $8, %rsp"
    print "    jmp *%rax"
    print "left:" # with the result in rax, or in rax and rdx
    print "    pushq %rax"
    print "    pushq %rdx"
    print "    leaq 8(%rsp), %rdi" # where the return address was
    print "    call vgc_trace_leave"
    print "    movq %rax, %r11"
    print "    popq %rdx"
    print "    popq %rax"
    print "    jmp *%r11"
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
    print "traced_" (NR - 1) ":"
    print "    pushq $" (NR - 1)
    print "    jmp traced"
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
    print ".globl vgc_traced"
    print ".hidden vgc_traced"
    print "vgc_traced:"
    for (i = 0; i < NR; i++)
        print "    .quad traced_" i
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
