/* Functions with parameters dlshim::array<...>, for nanobind and, with -DPYBIND11, for pybind11. */
#ifdef PYBIND11
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
namespace binder = pybind11;
#define MODULE(m) PYBIND11_MODULE(functions, m)
#else
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
namespace binder = nanobind;
#define MODULE(m) NB_MODULE(functions, m)
#endif

#include <dlshim.hpp>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

using one = dlshim::array<const double, 1>;
using two = dlshim::array<const double, 2>;

template <class Array> static double sum(const Array &x) {
    double all = 0;
    dlshim::each(x, [&all](double value) { all += value; });
    return all;
}
template <class Map> static double sum_of_values(const Map &all) {
    double total = 0;
    for (const auto &item : all) {
        total += sum(item.second);
    }
    return total;
}

/* An option that says what errors call the array. */
struct image {
    static void ask(dlshim::options &more) { more.request.name = "blur(): image"; }
};

/* Compares with an array of so many elements. */
struct Counted {
    explicit Counted(int64_t n) : count(n) {}
    int64_t count;
    bool equals(const one &x) const { return x.size() == count; }
};

/* The shape of mapbox-earcut's functions: points of T, and where each ring of them ends. */
template <class T>
static double earcut(const dlshim::array<const T, 2, dlshim::shape<-1, 2>, dlshim::detach> &points,
                     const dlshim::array<const uint32_t, 1> &ends) {
    if (ends.size() == 0 || ends(ends.size() - 1) != points.shape(0)) {
        throw std::invalid_argument("the last end is not the number of points");
    }
    return sum(points);
}

MODULE(m) {
    using binder::arg;
    m.def("takes", [](const one &x) { return sum(x); });
    m.def("by_value", [](one x) { return sum(x); });
    m.def("exactly", [](const one &x) { return sum(x); }, arg("x").noconvert());
    m.def("writes", [](const dlshim::array<double, 1> &x) { return sum(x); });
    m.def("anything", [](const dlshim::array<const void, 1> &x) { return x.size(); });
    m.def("detaches", [](const dlshim::array<const double, 1, dlshim::detach> &x) { return sum(x); });
    m.def("before", [](const one &x, double y) { return sum(x) + y; });
    /* Overloads: each adds a number of its own. */
    m.def("after", [](float y, const one &x) { return y + sum(x) + 100; });
    m.def("after", [](float y, const two &x) { return y + sum(x) + 200; });
    m.def("ranks", [](const one &x) { return sum(x) + 100; });
    m.def("ranks", [](const two &x) { return sum(x) + 200; });
    m.def("shared", [](const one &x) { return sum(x) + 100; });
    m.def("shared", [](const one &x, double y) { return sum(x) + y; }, arg("x"), arg("y") = 0.0);
    m.def("shared", [](const two &x) { return sum(x) + 200; });
    m.def("ends", [](const one &x) { return sum(x) + 100; });
    m.def("ends", [](const dlshim::array<const double, 2, dlshim::last> &x) { return sum(x) + 200; });
    m.def("scalar", [](const one &x) { return sum(x) + 100; });
    m.def("scalar", [](float x) { return x + 200; });
    m.def("dtypes", [](const one &x) { return sum(x) + 100; });
    m.def("dtypes", [](const dlshim::array<const float, 1> &x) { return sum(x) + 200; });
    /* Arrays in what the standard library has. */
    m.def("optional", [](const std::optional<one> &x) { return x ? sum(*x) : -1; },
          arg("x") = binder::none());
    m.def("all", [](const std::vector<one> &all) {
        double total = 0;
        for (const one &x : all) {
            total += sum(x);
        }
        return total;
    });
    m.def("map", [](const std::map<std::string, one> &all) { return sum_of_values(all); });
    m.def("unordered", [](const std::unordered_map<int, one> &all) { return sum_of_values(all); });
    m.def("pair", [](const std::pair<one, double> &x) { return sum(x.first) + x.second; });
    m.def("defaults", [](std::optional<one> x, double y) { return (x ? sum(*x) : -1) + y; },
          arg("x") = binder::none(), arg("y") = 0.0);
    m.def("all_ends", [](const std::vector<dlshim::array<const uint32_t, 1>> &all) { return all.size(); });
    m.def("named", [](const dlshim::array<const double, 1, image> &x) { return sum(x); });
    /* In overloads. */
    m.def("several", [](const std::optional<one> &x) { return x ? sum(*x) + 100 : -1; });
    m.def("several", [](const std::vector<one> &all) { return static_cast<double>(all.size()) + 200; });
    m.def("after_all", [](float y, const std::vector<one> &all) { return y + static_cast<double>(all.size()); });
    m.def("after_all", [](float y, const std::vector<two> &all) { return y + sum(all.at(0)); });
    m.def("rows", [](const std::vector<one> &all) { return static_cast<double>(all.size()); });
    m.def("rows", [](const dlshim::array<const double, 3> &x) { return sum(x) + 300; });
    m.def("variant", [](const std::variant<dlshim::array<const float, 1>, one> &x) { return x.index(); });
    m.def("earcut_float32", &earcut<float>);
    m.def("earcut_float64", &earcut<double>);
    binder::class_<Counted>(m, "Counted")
        .def(binder::init<int64_t>())
        .def("__eq__", &Counted::equals, binder::is_operator());
}
