# Writes functions that refuse by name: those that exports.txt (second file) gives to `soname` and that no object defines
# (first file: names). Their parameters do not matter, as all results but those of __cudaRegister... are errors.
BEGIN {
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
        if ($i == soname)
            print "REFUSAL(" $1 ")"
}
