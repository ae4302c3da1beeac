/* Stores and forgets what an interpreter remembers.  Each function stores the new
 * object with all that is known of it, and only then drops the old one: that may run
 * code which reads the memo.  Tests: tests/core/test_fast_path.py,
 * tests/core/test_options.py. */
#include "python/memo.h"

#include <assert.h>

void
dls_memo_set_version(dls_memo *memo, PyObject *value, bool versioned)
{
    assert(Py_IS_TYPE(value, &PyTuple_Type));
    PyObject *before = memo->version;
    memo->version = Py_NewRef(value);
    memo->versioned = versioned;
    Py_XDECREF(before);
}

void
dls_memo_set_host(dls_memo *memo, PyObject *pair)
{
    assert(Py_IS_TYPE(pair, &PyTuple_Type));
    PyObject *before = memo->host;
    memo->host = Py_NewRef(pair);
    Py_XDECREF(before);
}

void
dls_memo_set_keywords(dls_memo *memo, size_t place, const dls_seen_keywords *seen)
{
    assert(place < DLS_SEEN_KEYWORDS && seen->kwnames != NULL);
    PyObject *before = memo->keywords[place].kwnames;
    Py_INCREF(seen->kwnames);
    memo->keywords[place] = *seen;
    Py_XDECREF(before);
}

int
dls_memo_visit(const dls_memo *memo, visitproc visit, void *arg)
{
    Py_VISIT(memo->version);
    Py_VISIT(memo->host);
    for (int i = 0; i < DLS_SEEN_KEYWORDS; i++) {
        Py_VISIT(memo->keywords[i].kwnames);
    }
    return 0;
}

void
dls_memo_clear(dls_memo *memo)
{
    Py_CLEAR(memo->version);
    Py_CLEAR(memo->host);
    for (int i = 0; i < DLS_SEEN_KEYWORDS; i++) {
        Py_CLEAR(memo->keywords[i].kwnames);
    }
}
