/* unflushed.c: print N lines and end with a status without flushing them, as a program that crashes does. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
    for (int i = 0; i < count; i++)
        printf("step %d\n", i);
    _exit(argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0);
}
