/* A use of the types of dlshim.hpp: it compiles without a warning. */
#include <dlshim.hpp>
struct Count {
    int64_t elements = 0;
    template <class T> void operator()(const dlshim::view<const T> &x) { elements += x.size(); }
};
double use(PyObject *);
double use(PyObject *obj) {
    dlshim::array<const double, 2> x(obj, dlshim::options("use(): x").detach().device(1));
    dlshim::array<const double, 2> y(std::move(x));
    dlshim::array<const void> any;
    if (!any.take(obj, dlshim::options().copy(DLSHIM_COPY_NEVER))) {
        throw dlshim::python_error();
    }
    Count count;
    if (!dlshim::visit(any, count) || any.flags() & DLSHIM_READ_ONLY) {
        return 0;
    }
    dlshim::borrowed<std::complex<float>> z(obj, dlshim::options("z").row_major());
    z.at(0) = *z.data();
    x = std::move(y);
    return x(1, 2) + x.at(0, 0) + static_cast<double>(x.stride(0) + x.shape(1) + count.elements);
}
template <class T> constexpr bool copies() {
    return std::is_copy_constructible<T>::value || std::is_copy_assignable<T>::value;
}
using in = dlshim::array<double>;
using lent = dlshim::borrowed<double>;
static_assert(!copies<in>() && std::is_nothrow_move_constructible<in>::value, "one owner");
static_assert(!copies<lent>() && !std::is_move_constructible<lent>::value, "of one block");
