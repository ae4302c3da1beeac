/* dlshim::each over arrays of each rank: it is only compiled. */
#include <dlshim.hpp>
template <int Rank> double sum(PyObject *obj) {
    dlshim::array<const float, Rank> x(obj);
    double all = 0;
    dlshim::each(x, [&](float value) { all += value; });
    return all;
}
template double sum<0>(PyObject *);
template double sum<1>(PyObject *);
template double sum<2>(PyObject *);
template double sum<3>(PyObject *);
template double sum<dlshim::any_rank>(PyObject *);
