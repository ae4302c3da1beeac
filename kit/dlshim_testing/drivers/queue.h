/* Pending operations of the streams of an asynchronous fake.
 *
 * By default operations run at once, and clocks alone tell whether they were ordered.  When a test
 * switches a fake to asynchronous, operations take effect in their turn: after what their stream,
 * and by the rules of model.h other streams, did before, and after gates that the host opens.
 * Nothing runs by itself.  Whoever waits for an operation, or asks for it, carries out what it comes
 * after and nothing else; who waits for all carries out what was issued last first.  So of two
 * operations that nothing has ordered the later one takes effect first, and a program that knows no
 * clocks sees that an edge or a wait is missing.
 *
 * Everything wants the journal's lock to be held.
 */
#ifndef FM_QUEUE_H
#define FM_QUEUE_H

#include "model.h"

void fm_queue_mode(bool asynchronous);
bool fm_is_asynchronous(void);
/* What is pending is forgotten, and graphs are; operations run at once again. */
void fm_queue_reset(void);

/* How an operation works; the argument is the queue's own copy. */
typedef void (*fm_effect)(void *argument);

/* An operation of the stream; run at once if the fake is not asynchronous.  Of a capturing stream
 * it becomes part of the graph. */
void fm_queue_run(fm_stream *stream, fm_effect effect, const void *argument, size_t size);
/* The same for a function of the program, which runs without the lock. */
void fm_queue_call(fm_stream *stream, fm_effect function, void *argument);

/* The stream goes on when the word is so. */
typedef enum { FM_GREATER, FM_EQUAL, FM_ANY_BIT, FM_MISSING_BIT } fm_comparison;
void fm_queue_gate(fm_stream *stream, const void *word, uint32_t value, fm_comparison how);

void fm_queue_record(fm_stream *stream, fm_event *event);
void fm_queue_wait(fm_stream *stream, const fm_event *event);
void fm_queue_domain_record(fm_domain *domain, fm_event *event);
void fm_queue_domain_wait(fm_domain *domain, const fm_event *event);

/* The host waits.  The lock is given away meanwhile.  The process ends when that lasts too long. */
void fm_queue_stream_sync(fm_stream *stream);
void fm_queue_event_sync(const fm_event *event);
void fm_queue_domain_sync(const fm_domain *domain);
/* Is something left to do? */
bool fm_queue_stream_busy(const fm_stream *stream);
bool fm_queue_event_busy(const fm_event *event);

/* Graphs have numbers from 1.  A capture that ends well gives one. */
unsigned fm_queue_graph(fm_capture *capture);
bool fm_graph_exists(unsigned number);
void fm_graph_launch(fm_stream *stream, unsigned number);
void fm_graph_end(unsigned number);

#endif
