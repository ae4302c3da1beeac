/* The journal of a fake driver: one lock, a log, counts, failures that a test requested.
 *
 * Every function but fm_lock, fm_die and the ones that say so wants the lock to be held.  Texts
 * given out are malloc'ed: the receiver frees them.
 */
#ifndef FM_JOURNAL_H
#define FM_JOURNAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define FM_EXPORT __attribute__((visibility("default")))
#define FM_FORMAT(text, rest) __attribute__((format(printf, text, rest)))

void fm_lock(void);
void fm_unlock(void);

/* Memory that is never refused. */
void *fm_allocate(size_t size);
void *fm_resize(void *block, size_t size);

/* A text that grows. */
typedef struct {
    char *text;
    size_t length, room;
} fm_text;
void fm_append(fm_text *text, const char *format, ...) FM_FORMAT(2, 3);
char *fm_text_copy(const fm_text *text); /* malloc'ed, never NULL */
void fm_text_clear(fm_text *text);

/* The calling thread's number, from 1 in order of first use; needs no lock. */
unsigned fm_thread(void);

/* Who is calling on this thread, as the tests put it ("" unless they said so); no lock. */
void fm_set_caller(const char *name);

/* One line: "thread <tab> caller <tab> text". */
void fm_log(const char *format, ...) FM_FORMAT(1, 2);
char *fm_log_text(void);
void fm_log_clear(void);

/* Hazards that were found, one a line, apart from the log. */
void fm_race(const char *format, ...) FM_FORMAT(1, 2);
unsigned fm_race_count(void);
char *fm_races_text(void);

/* Counts by function: all calls, and those made while the thread held Python's lock. */
void fm_count(const char *name, bool held);
char *fm_counts_text(void); /* "name <tab> calls <tab> held", one a line */

/* The call of `name` that comes after `skip` others returns `rc` and does nothing. */
void fm_fail_next(const char *name, int rc, unsigned skip);
bool fm_forced(const char *name, int *rc);

/* Whether this thread holds Python's lock; false without Python.  Needs no lock. */
bool fm_gil_held(void);

/* From fm_claim_process on, fm_check_process aborts in every other process. */
void fm_claim_process(void);
void fm_disclaim_process(void);
void fm_check_process(const char *name);

/* Print why, and the log, and abort.  With or without the lock. */
_Noreturn void fm_die(const char *format, ...) FM_FORMAT(1, 2);

void fm_journal_clear(void);

#endif
