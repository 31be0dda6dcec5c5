/* Answers for each line "PATTERN<TAB>NAME" of its input whether they match: 1 or 0. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    char line[256];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\r\n")] = '\0';
        char *tab = strchr(line, '\t');
        if (tab == NULL)
            return 1;
        *tab = '\0';
        printf("%d\n", fnmatch(line, tab + 1, 0) == 0);
    }
    return 0;
}
