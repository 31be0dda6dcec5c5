# Writes the table of the driver API's functions: names that the objects define (first file), and those of aliases.txt
# (second file). With `list` set, the names alone.
FNR == NR {
    if ($1 ~ /^cu[A-Z]/) {
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
    print "const struct rt_driver_name RT_DRIVER_NAMES[] = {"
    for (i = 1; i <= count; i++)
        print "    {\"" functions[i] "\", target_" functions[i] "},"
    for (name in aliases)
        print "    {\"" name "\", target_" aliases[name] "},"
    print "};"
    print "const size_t RT_NUM_DRIVER_NAMES = sizeof(RT_DRIVER_NAMES) / sizeof(RT_DRIVER_NAMES[0]);"
}
