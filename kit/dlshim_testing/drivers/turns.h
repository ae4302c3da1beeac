/* Turns: the calls of several threads in one order, which the test has chosen.
 *
 * One of the threads that take part runs at a time.  It gives its turn away before each call of the
 * driver, where the host begins to wait, and where the test says so.  A plan says who is next; after
 * the plan's end it is the first thread that has not ended.  Each choice is noted, and out of how many
 * threads it was made, so a test that runs the same program with plan after plan tries every order.
 *
 * Nothing here wants the journal's lock but fm_turn_of_wait.  A thread that holds Python's lock keeps
 * its turn: others could not go on.
 */
#ifndef FM_TURNS_H
#define FM_TURNS_H

/* `apart` names the calls, each between spaces, that begin without a new turn: those that touch
 * nothing but their own thread's state. */
void fm_turns_begin(unsigned threads, const unsigned char *plan, unsigned length,
                    const char *apart);
/* The calling thread takes part as this one, and waits for its first turn. */
void fm_turn_join(unsigned number);
/* It has ended. */
void fm_turn_leave(void);
/* A call of the driver begins, or with NULL something of the test's own. */
void fm_turn(const char *call);
/* The host has begun to wait, with the journal's lock held, and goes on when it is its turn. */
void fm_turn_of_wait(void);
/* Every thread has ended.  For each turn "chosen of", one a line; malloc'ed. */
char *fm_turns_end(void);

#endif
