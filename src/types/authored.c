/* Searches the classes of an object for what the author of a decorated class wrote.
 * Called by offers.c and exchange/decorated_class.  Tests:
 * tests/core/test_called_class.py, tests/core/test_authors.py. */
#include "types/authored.h"

#include "python/errors.h"

/* --- one member ----------------------------------------------------------- */

void
dls_member_clear(dls_member_found *found)
{
    Py_CLEAR(found->function);
    Py_CLEAR(found->inner);
    Py_CLEAR(found->seen);
    found->at = -1;
}

Py_ssize_t
dls_place_of(PyObject *mro, const void *cls)
{
    Py_ssize_t n = PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyTuple_GetItem(mro, i) == cls) {
            return i;
        }
    }
    return -1;
}

/* Does a subclass have to write the method?  1, 0, or -1 with an exception. */
static int
is_abstract(PyObject *value)
{
    PyObject *said = PyObject_GetAttrString(value, "__isabstractmethod__");
    int abstract = said != NULL ? PyObject_IsTrue(said) : dls_error_forget();
    Py_XDECREF(said);
    return abstract;
}

/* Does the class show this value under the name? */
static int
shows(PyObject *cls, PyObject *name, PyObject *value)
{
    PyObject *shown = PyObject_GetAttr(cls, name);
    int same = shown != NULL ? shown == value : dls_error_forget();
    Py_XDECREF(shown);
    return same;
}

/* A member that is not ours.  A plain method is called as it is, another kind by a
 * function that looks it up each time. */
static int
take_foreign(dls_state *state, PyObject *name, PyObject *value, dls_member_found *found)
{
    int plain = dls_is_plain_method(value) ? shows(found->owner, name, value) : 0;
    if (plain > 0) {
        found->seen = Py_NewRef(value);
        found->function = Py_NewRef(value);
    }
    else if (plain == 0) {
        found->function = dls_in_python_with(state, DLS_IN_DECORATOR, "later", "(OO)",
                                             found->owner, name);
    }
    return found->function != NULL ? 0 : -1;
}

/* Look into a method of ours, which stands at this place.  The place where the search
 * goes on before the next class, or the same place where something is found; -2: it is
 * no method of a class from here on. */
static Py_ssize_t
look_into(dls_state *state, PyObject *mro, PyObject *name, Py_ssize_t at,
          PyObject *method, bool through, dls_member_found *found)
{
    const dls_method *data = dls_method_data(method);
    Py_ssize_t place = PyTuple_GetItem(mro, at) == (PyObject *)data->owner
                           ? at
                           : dls_place_of(mro, data->owner);
    if (place < at) {
        return -2;
    }
    bool exports = name == state->names.dlpack;
    bool has_own = (exports && data->inner != NULL) || data->own != NULL;
    if (has_own || !through) {
        found->at = place;
        found->owner = PyTuple_GetItem(mro, place);
        found->seen = Py_NewRef(method);
    }
    if (has_own && through) {
        found->inner = exports ? Py_XNewRef(data->inner) : NULL;
        found->function = found->inner == NULL ? Py_NewRef(data->own) : NULL;
    }
    return place;
}

int
dls_member_find(dls_state *state, PyObject *mro, PyObject *name, Py_ssize_t start,
                PyObject *entered, bool through, dls_member_found *found)
{
    *found = (dls_member_found){.at = -1};
    Py_ssize_t n = PyTuple_Size(mro);
    for (Py_ssize_t at = start; at < n; at++) {
        PyObject *cls = PyTuple_GetItem(mro, at), *value = NULL;
        int has = 1;
        if (at == start && entered != NULL) {
            value = Py_NewRef(entered);
        }
        else {
            has = dls_class_member(state, cls, name, &value);
        }
        Py_ssize_t next = -2;
        if (has > 0 && dls_is_method(state, value)) {
            next = look_into(state, mro, name, at, value, through || at == start,
                             found);
        }
        else if (has > 0) {
            int passed = value == Py_None ? 1 : is_abstract(value);
            has = passed > 0 ? 0 : passed < 0 ? -1 : 1;
        }
        if (has > 0 && next == -2) {
            found->at = at;
            found->owner = cls;
            has = take_foreign(state, name, value, found) < 0 ? -1 : 1;
        }
        Py_XDECREF(value);
        if (has < 0 || found->at >= 0) {
            if (has < 0) {
                dls_member_clear(found);
            }
            return has < 0 ? -1 : 0;
        }
        at = next >= 0 ? next : at;
    }
    return 0;
}

int
dls_member_shown(dls_state *state, PyObject *mro, PyObject *name,
                 dls_member_found *found, bool *ours)
{
    PyObject *value = NULL;
    Py_ssize_t n = PyTuple_Size(mro), at = 0;
    int has = 0;
    *found = (dls_member_found){.at = -1};
    *ours = false;
    while (at < n && has == 0) {
        has = dls_class_member(state, PyTuple_GetItem(mro, at), name, &value);
        at += has == 0;
    }
    *ours = has > 0 && dls_is_method(state, value);
    Py_XDECREF(value);
    if (*ours) {
        return dls_member_find(state, mro, name, at, NULL, true, found);
    }
    found->at = has > 0 ? at : -1;
    return has < 0 ? -1 : 0;
}

/* --- what a plan needs ---------------------------------------------------- */

void
dls_authored_clear(dls_authored *authored)
{
    Py_CLEAR(authored->inner);
    Py_CLEAR(authored->dlpack);
    Py_CLEAR(authored->device);
    Py_CLEAR(authored->seen_on);
    Py_CLEAR(authored->seen);
}

/* 0, or -1 with an exception that is fatal: most are attributes of the object alone. */
static int
take_inner(PyTypeObject *type, const dls_member_found *found, dls_authored *authored)
{
    PyObject *member = PyObject_GetAttr((PyObject *)type, found->inner);
    if (member == NULL && dls_error_forget() < 0) {
        return -1;
    }
    authored->inner = Py_NewRef(found->inner);
    authored->inner_is_called = member != NULL && PyCallable_Check(member);
    Py_XDECREF(member);
    return 0;
}

/* The function (moved) of a class behind `owner`, whose method keeps the plan, may be
 * replaced there.  The class right behind the owner shows that too, and shows whether
 * one that stands between has got a method. */
static int
take_function(PyObject *mro, Py_ssize_t start, PyTypeObject *owner, PyObject *name,
              dls_member_found *found, PyObject **function, dls_authored *authored)
{
    *function = found->function;
    found->function = NULL;
    authored->forwards = *function == NULL;
    authored->from = found->owner;
    if (found->seen == NULL || found->owner == (PyObject *)owner) {
        return 0;
    }
    PyObject *next = start + 1 < PyTuple_Size(mro) ? PyTuple_GetItem(mro, start + 1)
                                                   : found->owner;
    bool inherited = PyType_Check(next)
                     && PyType_IsSubtype(owner, (PyTypeObject *)next);
    int same = inherited ? shows(next, name, found->seen) : 0;
    if (same < 0) {
        return -1;
    }
    authored->seen_on = Py_NewRef(same > 0 ? next : found->owner);
    authored->seen = Py_NewRef(found->seen);
    return 0;
}

/* The device question of an export: it goes to what the object shows, if that has an
 * answer. */
static int
find_question(dls_state *state, PyObject *mro, dls_authored *authored)
{
    dls_member_found shown;
    bool ours;
    if (dls_member_shown(state, mro, state->names.dlpack_device, &shown, &ours) < 0) {
        return -1;
    }
    authored->hides_question = !ours;
    if (shown.at >= 0) {
        authored->device = Py_NewRef(ours ? state->device_asker
                                          : state->names.dlpack_device);
    }
    dls_member_clear(&shown);
    return 0;
}

/* The place of the owner of a method in the MRO; a metaclass may leave it out. */
static Py_ssize_t
place_of_method(PyObject *mro, PyObject *method)
{
    Py_ssize_t place = dls_place_of(mro, dls_method_data(method)->owner);
    return place >= 0 ? place : 0;
}

/* Find the member by our method `entered`.  What a base has is left to our method of
 * the base, if there is one that may keep a plan of it; `until`: not from this place of
 * the MRO on.  Results as those of dls_member_find. */
static int
find_entered(dls_state *state, PyObject *mro, PyObject *name, Py_ssize_t start,
             PyObject *entered, Py_ssize_t until, dls_member_found *found)
{
    dls_member_found next;
    if (dls_member_find(state, mro, name, start, entered, true, found) < 0) {
        return -1;
    }
    if (found->at <= start) {
        return 0;
    }
    if (dls_member_find(state, mro, name, start, entered, false, &next) < 0) {
        dls_member_clear(found);
        return -1;
    }
    bool ours = next.seen != NULL && next.function == NULL;
    if (ours && next.at <= until
        && PyType_IsSubtype((PyTypeObject *)next.owner, (PyTypeObject *)found->owner)) {
        dls_member_clear(found);
        *found = next;
    }
    else {
        dls_member_clear(&next);
    }
    return 0;
}

int
dls_authored_find(dls_state *state, PyTypeObject *type, PyObject *mro,
                  PyObject *entered, dls_authored *authored)
{
    dls_member_found own;
    PyObject *name = state->names.dlpack;
    PyTypeObject *owner = entered != NULL ? dls_method_data(entered)->owner : type;
    Py_ssize_t start = entered != NULL ? place_of_method(mro, entered) : 0;
    bool ours;
    *authored = (dls_authored){.at = -1};
    int code = entered != NULL ? find_entered(state, mro, name, start, entered,
                                              PyTuple_Size(mro), &own)
                               : dls_member_shown(state, mro, name, &own, &ours);
    authored->at = own.at;
    if (code == 0 && own.inner != NULL) {
        code = take_inner(type, &own, authored);
    }
    else if (code == 0 && (own.function != NULL || own.seen != NULL)) {
        code = take_function(mro, start, owner, name, &own, &authored->dlpack,
                             authored);
    }
    code = code == 0 ? find_question(state, mro, authored) : code;
    dls_member_clear(&own);
    if (code < 0) {
        dls_authored_clear(authored);
    }
    return code;
}

/* Nothing but an export answers: plan that which the object shows. */
static int
answer_by_export(PyTypeObject *type, PyObject *mro, Py_ssize_t start,
                 PyTypeObject *owner, PyObject *name, dls_member_found *shown,
                 bool ours, dls_authored *authored)
{
    if (shown->inner != NULL) {
        return take_inner(type, shown, authored);
    }
    if (shown->function != NULL) {
        return take_function(mro, start, owner, name, shown, &authored->dlpack,
                             authored);
    }
    if (!ours) {
        authored->dlpack = Py_NewRef(name);
    }
    return 0;
}

int
dls_authored_find_device(dls_state *state, PyTypeObject *type, PyObject *mro,
                         PyObject *entered, dls_authored *authored)
{
    dls_member_found around, answer, shown;
    PyTypeObject *owner = dls_method_data(entered)->owner;
    Py_ssize_t start = place_of_method(mro, entered);
    PyObject *name = state->names.dlpack, *question = state->names.dlpack_device;
    bool ours = false;
    *authored = (dls_authored){.at = -1};
    answer = shown = (dls_member_found){.at = -1};
    int code = dls_member_find(state, mro, name, start, NULL, true, &around);
    /* A class that exports in a way of its own answers for that: what exports for the
     * class of a method behind it is another one. */
    Py_ssize_t until = around.at >= 0 ? around.at : PyTuple_Size(mro);
    code = code == 0
               ? find_entered(state, mro, question, start, entered, until, &answer)
               : code;
    code = code == 0 ? dls_member_shown(state, mro, name, &shown, &ours) : code;
    authored->at = shown.at;
    if (code == 0 && around.inner != NULL
        && (answer.at < 0 || around.at <= answer.at)) {
        code = take_inner(type, &around, authored);
    }
    else if (code == 0 && answer.at >= 0) {
        authored->dlpack = Py_NewRef(name);
        code = take_function(mro, start, owner, question, &answer, &authored->device,
                             authored);
    }
    else if (code == 0) {
        code = answer_by_export(type, mro, start, owner, name, &shown, ours, authored);
    }
    dls_member_clear(&around);
    dls_member_clear(&answer);
    dls_member_clear(&shown);
    if (code < 0) {
        dls_authored_clear(authored);
    }
    return code;
}
