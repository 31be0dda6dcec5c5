# Writes functions that refuse by name: those that exports.txt (second file) gives to one of `sonames` and that no object defines
# (first file: names). Their parameters do not matter, as all results but those of __cudaRegister... are errors.
BEGIN {
    count = split(sonames, words, " ")
    for (i = 1; i <= count; i++)
        wanted[words[i]] = 1
    print "#include \"runtime.h\""
    print "#define REFUSAL(name) \\"
    print "    cudaError_t name(void); \\"
    print "    RT_API cudaError_t name(void) { return rt_return(rt_unsupported(#name \"()\")); }"
}
FNR == NR {
    defined[$1] = 1
    next
}
/^#/ || ($1 in defined) { next }
{
    for (i = 2; i <= NF; i++)
        if ($i in wanted) {
            print "REFUSAL(" $1 ")"
            next
        }
}
