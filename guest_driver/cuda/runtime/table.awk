# Writes the table of an interface's functions: names that the objects define (first file) and that `pattern` fits, and
# further names of them (aliases.txt). The table is called `table`. With `list` set, the names alone.
FNR == NR {
    if ($1 ~ pattern) {
        functions[++count] = $1
        entries[$1] = $1
    }
    next
}
/^#/ { next }
{
    if (!($2 in entries)) {
        print "aliases.txt: no function " $2 > "/dev/stderr"
        exit 1
    }
    aliases[$1] = $2
}
END {
    if (list) {
        for (i = 1; i <= count; i++)
            print functions[i]
        for (name in aliases)
            print name
        exit
    }
    print "#include \"runtime.h\""
    for (i = 1; i <= count; i++) {
        print "extern const char target_" functions[i] "[] __asm__(\"" functions[i] "\");"
    }
    print "const struct rt_named_function RT_" table "[] = {"
    for (i = 1; i <= count; i++)
        print "    {\"" functions[i] "\", target_" functions[i] "},"
    for (name in aliases)
        print "    {\"" name "\", target_" aliases[name] "},"
    print "};"
    print "const size_t RT_NUM_" table " = sizeof(RT_" table ") / sizeof(RT_" table "[0]);"
}
