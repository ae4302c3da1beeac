/* Threads take the locks of many addresses while others fork: compiled with src/core/lock.c. */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/lock.h"

/* No object: only an address. */
static struct {
    long long first;
    int count;
} things[40];

static void *
work(void *ignored)
{
    for (int i = 0; i < 400000; i++) {
        DLS_LOCK(&things[i % 40]);
        things[i % 40].count++;
        DLS_UNLOCK();
    }
    return ignored;
}

int
main(void)
{
    pthread_t threads[4];
    int status, wrong = 0;
    pthread_atfork(dls_lock_take_all, dls_lock_give_all, dls_lock_give_all);
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, work, NULL);
    }
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(400);
            work(NULL);
            _exit(0);
        }
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 40; i++) {
        wrong += things[i].count != 40000;
    }
    {
        DLS_LOCK_STATE();
        DLS_UNLOCK();
    }
    printf("%d wrong\n", wrong);
    return 0;
}
