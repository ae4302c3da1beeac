/* dlshim.hpp 0.1.0: dlshim.h for C++11, as types that give back what they hold.
 * SPDX-License-Identifier: Apache-2.0
 *
 *   dlshim::array<const double, 2> x(obj);        // yours: may be moved, kept, used without the GIL
 *   dlshim::borrowed<double> y(obj, "blur(): y"); // of the object, until the end of the block
 *   x(i, j), x.at(i, j), x.size(), x.shape(0), x.data()
 *
 * `const T`: you only read, and read-only memory and copies are taken.  `T`: you write, and the
 * object sees it.  `void` and `const void`: any dtype; dlshim::visit(x, f) calls f with a view of
 * the type that it has.  A number of dimensions is demanded; dlshim::any_rank: any.
 *
 * Memory is the host's and has any strides; dlshim::options asks for more (row_major() and so on).
 * A constructor throws dlshim::python_error with a Python exception set: where nanobind or pybind11
 * is included before this header, it is their own type, and functions of theirs may have parameters
 * dlshim::array<...>: they convert numbers as nb::ndarray does, and overloads are tried in turn. */
#ifndef DLSHIM_HPP
#define DLSHIM_HPP

#include <dlshim.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>
#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_FLOAT32_T__) || defined(__STDCPP_FLOAT64_T__) \
    || defined(__STDCPP_FLOAT128_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif
#include <stdexcept>
#include <type_traits>
#include <utility>

#if defined(__GNUC__)
#define DLSHIM_HIDDEN_ __attribute__((visibility("hidden")))
#else /* a DLL shows what it says it shows */
#define DLSHIM_HIDDEN_
#endif

#if defined(NB_VERSION_MAJOR)
#define DLSHIM_BINDER_ nanobind
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>
#elif defined(PYBIND11_VERSION_MAJOR)
#define DLSHIM_BINDER_ pybind11
#else /* by these is seen whether one of them comes later, which is too late */
namespace nanobind {
namespace detail {
template <typename, typename> struct type_caster;
}
} // namespace nanobind
namespace pybind11 {
namespace detail {
template <typename, typename> class type_caster;
}
} // namespace pybind11
#endif

namespace dlshim {

#if defined(NB_VERSION_MAJOR)
using python_error = nanobind::python_error;
#elif defined(PYBIND11_VERSION_MAJOR)
using python_error = pybind11::error_already_set;
#else
/* A Python exception is set: return NULL to Python. */
struct python_error : std::runtime_error {
    python_error() : std::runtime_error("a Python exception is set") {}
};
#endif

namespace detail {
template <class T, class = void> struct is_complete : std::false_type {};
template <class T> struct is_complete<T, decltype(void(sizeof(T)))> : std::true_type {};
#ifdef DLSHIM_BINDER_
template <class> struct binder_is_late : std::false_type {};
#else
template <class> struct no_parameter {};
template <class T>
struct binder_is_late
    : std::integral_constant<
          bool, is_complete<nanobind::detail::type_caster<no_parameter<T>, int>>::value
                    || is_complete<pybind11::detail::type_caster<no_parameter<T>, void>>::value> {};
#endif
} // namespace detail

static constexpr int any_rank = -1;

/* A dtype of one lane, as DLDataType has it. */
template <uint8_t Code, uint8_t Bits> struct dtype_is {
    static constexpr uint8_t code = Code, bits = Bits;
    static dlshim_dtype value() { return {Code, Bits, 1}; }
};

/* The dtype of a C++ type.  Each type is named below.  A type that only resembles one of them may be
 * another thing: long double has 80 bits on x86, and char is signed on some processors alone. */
template <class T, class = void> struct dtype_of {
    static dlshim_dtype value() {
        static_assert(sizeof(T) == 0,
                      "dlshim knows no dtype of this C++ type.  Use bool, int8_t to int64_t, uint8_t to "
                      "uint64_t, float, double, or std::complex of float or double; or say which dtype "
                      "it is, outside of all namespaces: template <> struct dlshim::dtype_of<YourType> "
                      ": dlshim::dtype_is<4, 16> {};  (code and bits of DLDataType; this is a bfloat16)");
        return {0, 0, 0};
    }
};
template <> struct dtype_of<bool> : dtype_is<6, 8> {};
#define DLSHIM_IS_(code, type) \
    template <> struct dtype_of<type> : dtype_is<code, 8 * sizeof(type)> {}
DLSHIM_IS_(0, signed char);
DLSHIM_IS_(0, short);
DLSHIM_IS_(0, int);
DLSHIM_IS_(0, long);
DLSHIM_IS_(0, long long);
DLSHIM_IS_(1, unsigned char);
DLSHIM_IS_(1, unsigned short);
DLSHIM_IS_(1, unsigned int);
DLSHIM_IS_(1, unsigned long);
DLSHIM_IS_(1, unsigned long long);
DLSHIM_IS_(2, float);
DLSHIM_IS_(2, double);
DLSHIM_IS_(5, std::complex<float>);
DLSHIM_IS_(5, std::complex<double>);
/* The types of <stdfloat>, which C++23 has where the compiler says so. */
#ifdef __STDCPP_FLOAT16_T__
DLSHIM_IS_(2, std::float16_t);
#endif
#ifdef __STDCPP_FLOAT32_T__
DLSHIM_IS_(2, std::float32_t);
#endif
#ifdef __STDCPP_FLOAT64_T__
DLSHIM_IS_(2, std::float64_t);
#endif
#ifdef __STDCPP_FLOAT128_T__
DLSHIM_IS_(2, std::float128_t);
#endif
#ifdef __STDCPP_BFLOAT16_T__
DLSHIM_IS_(4, std::bfloat16_t);
#endif
#undef DLSHIM_IS_

/* The floats of 16 bits, which C++ has since C++23 alone: they become a float, and a float may be
 * assigned to them, which rounds to the nearest. */
struct bfloat16 {
    uint16_t bits;
    operator float() const {
        const uint32_t word = static_cast<uint32_t>(bits) << 16;
        float value;
        memcpy(&value, &word, sizeof value);
        return value;
    }
    bfloat16 &operator=(float value) {
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        const bool is_nan = (word & 0x7fffffff) > 0x7f800000;
        word = is_nan ? word | 0x400000 : word + 0x7fff + (word >> 16 & 1);
        bits = static_cast<uint16_t>(word >> 16);
        return *this;
    }
};
struct float16 {
    uint16_t bits;
    operator float() const {
        const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
        const uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        uint32_t word = sign | exponent << 23 | fraction << 13;
        float value;
        if (exponent == 0) { /* zero, or too small for an exponent: of 2^-24 each */
            value = static_cast<float>(fraction) / 16777216;
            return sign != 0 ? -value : value;
        }
        word += (exponent == 31 ? 224u : 112u) << 23; /* infinite and NaN: 255 there */
        memcpy(&value, &word, sizeof value);
        return value;
    }
    float16 &operator=(float value) {
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        const uint32_t sign = word >> 16 & 0x8000;
        word &= 0x7fffffff;
        bits = static_cast<uint16_t>(sign | rounded(word));
        return *this;
    }

  private:
    static uint32_t rounded(uint32_t word) {
        const uint32_t exponent = word >> 23;
        if (word >= 0x477ff000) { /* from 65520 on */
            return word > 0x7f800000 ? 0x7e00 : 0x7c00;
        }
        if (exponent >= 113) {
            return (word + 0xfff + (word >> 13 & 1) - (112u << 23)) >> 13;
        }
        if (exponent < 102) { /* less than half of the smallest */
            return 0;
        }
        const uint32_t fraction = (word & 0x7fffff) | 0x800000, shift = 126 - exponent;
        const uint32_t whole = fraction >> shift, rest = fraction & ((1u << shift) - 1);
        const uint32_t half = 1u << (shift - 1);
        return whole + (rest > half || (rest == half && (whole & 1) != 0));
    }
};
template <> struct dtype_of<bfloat16> : dtype_is<4, 16> {};
template <> struct dtype_of<float16> : dtype_is<2, 16> {};

/* What is asked for beside dtype, rank and writing. */
struct options {
    dlshim_request request = DLSHIM_REQUEST_INIT;
    bool converts = false;
    const int64_t *extents = nullptr; /* one for each dimension, -1: any; nullptr: any shape */
    options() {}
    options(const char *name) { request.name = name; }
    options &row_major() { return request.contiguous = DLSHIM_ROW_MAJOR, *this; }
    options &row_or_column_major() {
        return request.contiguous = DLSHIM_ROW_OR_COLUMN_MAJOR, *this;
    }
    options &copy(int32_t when) { return request.copy = when, *this; }
    options &detach() { return request.detach = 1, *this; }
    options &device(int32_t type, int32_t id = 0) {
        return request.device_type = type, request.device_id = id, *this;
    }
    options &alignment(int64_t bytes) { return request.alignment = bytes, *this; }
    options &stream(dlshim_stream stream) { return request.stream = stream, *this; }
    /* Numbers of other dtypes are taken, too: T's are made of them, in row-major memory of their own.
     * A number is rounded to the nearest float.  A number that T cannot have (1.5 or -1 as uint32, 1e300
     * as float) is a ValueError.  Complex numbers become complex numbers alone.  Numbers are converted
     * only where T is const and the memory is the host's, and never with DLSHIM_COPY_NEVER. */
    options &convert() { return converts = true, *this; }
};

/* Options as types, of parameters and others: dlshim::array<const float, 2, dlshim::detach>.  A type of
 * yours with such an ask() is one, too. */
struct row_major {
    static void ask(options &more) { more.row_major(); }
};
struct row_or_column_major {
    static void ask(options &more) { more.row_or_column_major(); }
};
struct detach {
    static void ask(options &more) { more.detach(); }
};
struct convert {
    static void ask(options &more) { more.convert(); }
};
template <int32_t When> struct copy { /* DLSHIM_COPY_* */
    static void ask(options &more) { more.copy(When); }
};
template <int32_t Type, int32_t Id = 0> struct device {
    static void ask(options &more) { more.device(Type, Id); }
};
template <int64_t Bytes> struct alignment {
    static void ask(options &more) { more.alignment(Bytes); }
};
/* The parameter of the last overload of its function: where it refuses, the user reads why. */
struct last {
    static void ask(options &) {}
};
/* The extents, -1: any.  Another shape is a ValueError. */
template <int64_t... Extents> struct shape {
    static void ask(options &more) {
        static const int64_t extents[] = {Extents..., -1};
        more.extents = extents;
    }
};

namespace detail {
/* Shape and strides by value.  Behind a pointer a compiler reads them again after each element of
 * int64_t that is written: it cannot know that the element is none of them. */
template <int Rank> struct dims {
    int64_t shape[Rank == 0 ? 1 : Rank], strides[Rank == 0 ? 1 : Rank];
    explicit dims(const dlshim_array &array) : shape(), strides() {
        for (int i = 0; i < Rank && i < array.ndim; i++) {
            shape[i] = array.shape[i];
            strides[i] = array.strides[i];
        }
    }
};
template <> struct dims<any_rank> {
    const int64_t *shape, *strides;
    explicit dims(const dlshim_array &array) : shape(array.shape), strides(array.strides) {}
};
inline int64_t offset(const int64_t *) { return 0; }
template <class... I> int64_t offset(const int64_t *strides, int64_t index, I... more) {
    return index * *strides + offset(strides + 1, more...);
}
} // namespace detail

/* An array that somebody else holds: elements of T, or of any type where T is void.  An array of
 * another rank has no elements. */
template <class T, int Rank = any_rank> class view {
    static_assert(!detail::binder_is_late<T>::value,
                  "include nanobind/nanobind.h or pybind11/pybind11.h before dlshim.hpp: only then has it "
                  "their exception, and parameters of functions");

  public:
    using element = T;
    static constexpr int rank = Rank;
    view() : view(dlshim_array()) {}
    explicit view(const dlshim_array &array)
        : array_(Rank == any_rank || array.ndim == Rank ? array : dlshim_array()), dims_(array_) {}

    const dlshim_array &as_c() const { return array_; }
    int32_t ndim() const { return array_.ndim; }
    int64_t shape(int32_t axis) const { return dims_.shape[axis]; }
    int64_t stride(int32_t axis) const { return dims_.strides[axis]; } /* in elements */
    int64_t size() const {
        uint64_t n = has_array(); /* unsigned: beside an extent of 0 it may overflow */
        for (int32_t i = 0; i < array_.ndim; i++) {
            n *= static_cast<uint64_t>(shape(i));
        }
        return static_cast<int64_t>(n);
    }
    T *data() const {
        return reinterpret_cast<T *>(static_cast<char *>(array_.data) + array_.byte_offset);
    }

    /* The element, without a check. */
    template <class U = T, class... I> U &operator()(I... index) const {
        constexpr int count = static_cast<int>(sizeof...(I));
        static_assert(Rank == any_rank || count == Rank, "as many indices as dimensions");
        return data()[detail::offset(dims_.strides, static_cast<int64_t>(index)...)];
    }
    /* The element; std::out_of_range where there is none.  Negative indices count as wrong. */
    template <class U = T, class... I> U &at(I... index) const {
        const int64_t at[sizeof...(I) + 1] = {static_cast<int64_t>(index)..., 0};
        bool is = has_array() && array_.ndim == static_cast<int32_t>(sizeof...(I));
        for (size_t i = 0; is && i < sizeof...(I); i++) {
            is = at[i] >= 0 && at[i] < dims_.shape[i];
        }
        if (!is) {
            throw std::out_of_range("dlshim: no such element");
        }
        return (*this)(index...);
    }

  protected:
    /* One without has no elements: it was moved away, or nothing was taken yet. */
    bool has_array() const { return array_.dtype.bits != 0; }
    void look_at(const dlshim_array &array) { *this = view(array); }

  private:
    dlshim_array array_;
    detail::dims<Rank> dims_;
};

namespace detail {
template <class... Types> struct types {};
using real_types = types<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t,
                         uint64_t, float, double, float16, bfloat16>;
using complex_types = types<std::complex<float>, std::complex<double>>;

/* The kinds of numbers that C++ types are.  Elements of a type without a kind are never converted. */
enum { no_number, truth, integer, floating, floating_16, complex };
template <class T> struct kind_of {
    static constexpr int other = std::is_floating_point<T>::value ? floating : no_number;
    static constexpr int value = std::is_integral<T>::value ? integer : other;
};
template <> struct kind_of<bool> { static constexpr int value = truth; };
template <> struct kind_of<float16> { static constexpr int value = floating_16; };
template <> struct kind_of<bfloat16> { static constexpr int value = floating_16; };
template <class T> struct kind_of<std::complex<T>> { static constexpr int value = complex; };

/* become(value, to): the number in T; false where T has none like it.  The value is an integer, a float,
 * a double, or a complex of these. */
template <class T, int Kind = kind_of<T>::value> struct number;
template <class T> struct number<T, truth> {
    template <class U> static bool become(U value, T &to) {
        to = value != U(0);
        return value == U(0) || value == U(1);
    }
};
template <class T> struct number<T, integer> {
    template <class U> static bool become(U value, T &to) {
        return become(value, to, std::is_floating_point<U>());
    }

  private:
    template <class U> static bool become(U value, T &to, std::false_type) {
        to = static_cast<T>(value);
        return static_cast<U>(to) == value && (to < T(1)) == (value < U(1));
    }
    template <class U> static bool become(U value, T &to, std::true_type) {
        const U end = std::ldexp(U(1), std::numeric_limits<T>::digits);
        const U begin = std::is_signed<T>::value ? -end : U(0);
        if (!(value >= begin && value < end)) { /* nor NaN */
            return false;
        }
        to = static_cast<T>(value);
        return static_cast<U>(to) == value;
    }
};
template <class T> struct number<T, floating> {
    template <class U> static bool become(U value, T &to) {
        to = static_cast<T>(value);
        return !std::isinf(static_cast<double>(to)) || std::isinf(static_cast<double>(value));
    }
};
template <class T> struct number<T, floating_16> {
    template <class U> static bool become(U value, T &to) {
        float rounded;
        const bool is = number<float>::become(value, rounded);
        to = rounded;
        return is && (!std::isinf(static_cast<float>(to)) || std::isinf(rounded));
    }
};
template <class T> struct number<std::complex<T>, complex> {
    template <class U> static bool become(U value, std::complex<T> &to) {
        T real;
        const bool is = number<T>::become(value, real);
        to = std::complex<T>(real, 0);
        return is;
    }
    template <class U> static bool become(std::complex<U> value, std::complex<T> &to) {
        T real, imaginary;
        const bool is = number<T>::become(value.real(), real);
        const bool too = number<T>::become(value.imag(), imaginary);
        to = std::complex<T>(real, imaginary);
        return is && too;
    }
};

/* An element at any address, as a value that become() takes. */
template <class U> struct element {
    static U read(const char *at) {
        U value;
        memcpy(&value, at, sizeof value);
        return value;
    }
};
template <> struct element<bool> {
    static uint8_t read(const char *at) { return *at != 0; }
};
template <> struct element<float16> {
    static float read(const char *at) {
        float16 value;
        memcpy(&value, at, sizeof value);
        return value;
    }
};
template <> struct element<bfloat16> {
    static float read(const char *at) {
        bfloat16 value;
        memcpy(&value, at, sizeof value);
        return value;
    }
};

/* A value that an error names. */
inline PyObject *as_python(double value) { return PyFloat_FromDouble(value); }
inline PyObject *as_python(uint64_t value) { return PyLong_FromUnsignedLongLong(value); }
inline PyObject *as_python(int64_t value) { return PyLong_FromLongLong(value); }
template <class U> PyObject *as_python(std::complex<U> value) {
    return PyComplex_FromDoubles(value.real(), value.imag());
}
template <class U> PyObject *as_python(U value) {
    using wide = typename std::conditional<
        std::is_floating_point<U>::value, double,
        typename std::conditional<std::is_signed<U>::value, int64_t, uint64_t>::type>::type;
    return as_python(static_cast<wide>(value));
}

/* The elements of an array of U, in row-major order, as numbers of T. */
template <class U, class T> struct conversion {
    const dlshim_array &from;
    T *to;
    PyObject *stray; /* the first value that T does not have, or nullptr with an exception */

    bool element_at(const char *at) {
        const auto value = element<U>::read(at);
        const bool is = number<T>::become(value, *to++);
        if (!is) {
            stray = as_python(value);
        }
        return is;
    }
    bool run(const char *at, int32_t axis) {
        if (axis == from.ndim) {
            return element_at(at);
        }
        const bool last = axis + 1 == from.ndim;
        const int64_t step = from.strides[axis] * static_cast<int64_t>(sizeof(U));
        for (int64_t i = 0; i < from.shape[axis]; i++, at += step) {
            if (!(last ? element_at(at) : run(at, axis + 1))) {
                return false;
            }
        }
        return true;
    }
};
template <class T> bool convert_all(const dlshim_array &, T *, PyObject **, types<>) { return true; }
template <class T, class U, class... More>
bool convert_all(const dlshim_array &from, T *to, PyObject **stray, types<U, More...>) {
    const dlshim_dtype is = dtype_of<U>::value();
    if (memcmp(&is, &from.dtype, sizeof is) != 0) {
        return convert_all(from, to, stray, types<More...>());
    }
    conversion<U, T> now = {from, to, nullptr};
    const bool done = now.run(static_cast<const char *>(from.data) + from.byte_offset, 0);
    *stray = now.stray;
    return done;
}

/* How an error calls an object: by the name that was asked for, or by its type. */
inline PyObject *called(PyObject *obj, const options &asked) {
    if (asked.request.name != nullptr) {
        return PyUnicode_FromString(asked.request.name);
    }
    PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(obj));
    PyObject *home = PyObject_GetAttrString(type, "__module__");
    PyObject *name = home != nullptr ? PyObject_GetAttrString(type, "__qualname__") : nullptr;
    PyObject *said = nullptr;
    if (name != nullptr) {
        said = PyUnicode_FromFormat("'%S.%S' object", home, name);
    }
    Py_XDECREF(home);
    Py_XDECREF(name);
    return said;
}
inline void refuse_value(PyObject *obj, const options &asked, PyObject *stray, dlshim_dtype dtype) {
    static const char *const names[] = {"int", "uint", "float", "", "bfloat", "complex"};
    PyObject *name = stray != nullptr ? called(obj, asked) : nullptr;
    if (name != nullptr && dtype.code == 6) {
        PyErr_Format(PyExc_ValueError, "%U has the value %R, which is no bool", name, stray);
    }
    else if (name != nullptr) {
        PyErr_Format(PyExc_ValueError, "%U has the value %R, which does not fit in %s%d", name, stray,
                     names[dtype.code], static_cast<int>(dtype.bits));
    }
    Py_XDECREF(name);
    Py_XDECREF(stray);
}
inline bool has_extents(PyObject *obj, const options &asked, const dlshim_array &has) {
    for (int32_t i = 0; asked.extents != nullptr && i < has.ndim; i++) {
        if (asked.extents[i] >= 0 && asked.extents[i] != has.shape[i]) {
            PyObject *name = called(obj, asked);
            if (name != nullptr) {
                PyErr_Format(PyExc_ValueError, "%U has an extent of %lld in dimension %d, not %lld",
                             name, static_cast<long long>(has.shape[i]), i,
                             static_cast<long long>(asked.extents[i]));
                Py_DECREF(name);
            }
            return false;
        }
    }
    return true;
}

inline void free_rows(struct DLManagedTensorVersioned *tensor) { free(tensor); }
/* New row-major memory of that shape, for elements of another dtype; nullptr with MemoryError. */
inline struct DLManagedTensorVersioned *new_rows(const dlshim_array &from, dlshim_dtype dtype,
                                                 size_t alignment) {
    const size_t ndim = static_cast<size_t>(from.ndim);
    const size_t head = sizeof(dlshim_layout_) + 2 * ndim * sizeof(int64_t) + alignment;
    size_t bytes = dtype.bits / 8;
    bool fits = true, empty = false;
    for (int32_t i = 0; i < from.ndim; i++) {
        const size_t extent = static_cast<size_t>(from.shape[i]);
        empty = empty || extent == 0;
        fits = fits && (extent == 0 || bytes <= (SIZE_MAX / 2 - head) / extent);
        bytes *= extent;
    }
    char *memory = nullptr;
    if (fits || empty) {
        memory = static_cast<char *>(malloc(head + (empty ? 0 : bytes)));
    }
    if (memory == nullptr) {
        PyErr_NoMemory();
        return nullptr;
    }
    int64_t *shape = reinterpret_cast<int64_t *>(memory + sizeof(dlshim_layout_));
    int64_t *strides = shape + ndim;
    int64_t step = 1;
    for (size_t i = ndim; i-- > 0;) {
        shape[i] = from.shape[i];
        strides[i] = step;
        step *= empty ? 1 : shape[i];
    }
    char *data = reinterpret_cast<char *>(strides + ndim);
    data += (alignment - reinterpret_cast<uintptr_t>(data) % alignment) % alignment;
    const dlshim_layout_ made = {{1, 0}, nullptr, free_rows, 2 /* IS_COPIED */,
                                 {data, 1, 0, from.ndim, dtype, shape, strides, 0}};
    memcpy(memory, &made, sizeof made);
    return reinterpret_cast<struct DLManagedTensorVersioned *>(memory);
}

/* The request for elements of T, and how other numbers become such elements. */
template <class T, int Kind = kind_of<T>::value> struct elements {
    using reals = typename std::conditional<Kind == no_number, types<>, real_types>::type;
    using others = typename std::conditional<Kind == complex, complex_types, types<>>::type;

    /* One list in each module: a T of the same name elsewhere may be another type. */
    DLSHIM_HIDDEN_ static void ask(options &asked) {
        static const list taken;
        dlshim_request &want = asked.request;
        want.dtypes = taken.all;
        want.dtype_count = asked.converts ? taken.count : 1;
        if (want.alignment < static_cast<int64_t>(alignof(T))) {
            want.alignment = alignof(T);
        }
    }
    /* *made: the elements as numbers of T; nullptr: they are T's.  false with an exception. */
    static bool convert(PyObject *obj, const options &asked, const dlshim_array &from,
                        struct DLManagedTensorVersioned **made) {
        const dlshim_dtype dtype = dtype_of<T>::value();
        if (memcmp(&dtype, &from.dtype, sizeof dtype) == 0) {
            return true;
        }
        *made = new_rows(from, dtype, static_cast<size_t>(asked.request.alignment));
        if (*made == nullptr) {
            return false;
        }
        PyObject *stray = nullptr;
        T *to = static_cast<T *>(dlshim_look(*made, nullptr).data);
        if (view<T>(from).size() == 0
            || (convert_all(from, to, &stray, reals()) && convert_all(from, to, &stray, others()))) {
            return true;
        }
        dlshim_release(*made);
        *made = nullptr;
        refuse_value(obj, asked, stray, dtype);
        return false;
    }

  private:
    struct list { /* T's own dtype is first: errors name it */
        dlshim_dtype all[16];
        size_t count;
        list() : count(0) {
            add(types<T>());
            add(reals());
            add(others());
        }
        void add(types<>) {}
        template <class U, class... More> void add(types<U, More...>) {
            const dlshim_dtype next = dtype_of<U>::value();
            if (count == 0 || memcmp(all, &next, sizeof next) != 0) {
                all[count++] = next;
            }
            add(types<More...>());
        }
    };
};
template <> struct elements<void, no_number> {
    static void ask(options &) {}
    static bool convert(PyObject *, const options &, const dlshim_array &,
                        struct DLManagedTensorVersioned **) {
        return true;
    }
};
template <class T> using elements_of = elements<typename std::remove_const<T>::type>;

template <int Rank, class Option> struct has_rank : std::true_type {};
template <int Rank, int64_t... Extents>
struct has_rank<Rank, shape<Extents...>>
    : std::integral_constant<bool, Rank == static_cast<int>(sizeof...(Extents))> {};
template <bool...> struct bools {};

/* The options of a constructor, and what the type says. */
template <class T, int Rank, class... More> options question(options asked) {
    static_assert(std::is_same<bools<true, has_rank<Rank, More>::value...>,
                               bools<has_rank<Rank, More>::value..., true>>::value,
                  "dlshim::shape has as many extents as the array has dimensions: array<T, 2, shape<-1, 3>>");
    const int said[] = {0, (More::ask(asked), 0)...};
    static_cast<void>(said);
    dlshim_request &want = asked.request;
    want.writable = !std::is_const<T>::value;
    if (Rank != any_rank) {
        want.ranks = DLSHIM_RANK(Rank == any_rank ? 0 : Rank);
    }
    const bool on_host = want.device_type == 0 || want.device_type == 1;
    asked.converts = asked.converts && std::is_const<T>::value && on_host && want.copy != DLSHIM_COPY_NEVER;
    elements_of<T>::ask(asked);
    return asked;
}
/* The request of a type whose constructor got no options: made once. */
template <class T, int Rank, class... More> DLSHIM_HIDDEN_ const options &usual_question() {
    static const options made = question<T, Rank, More...>(options());
    return made;
}
/* With an exception: `refused` is another kind of array, and another overload may take it; `failed` is
 * a value that T does not have, the end of memory or an interruption. */
enum class answer { taken, refused, failed };
inline answer why() {
    const bool says_something = PyErr_ExceptionMatches(PyExc_Exception);
    return says_something && !PyErr_ExceptionMatches(PyExc_MemoryError) ? answer::refused
                                                                        : answer::failed;
}
/* The last steps with an array that was taken: its extents are compared, and its numbers are converted.
 * *made is the memory with the converted numbers, which the caller owns; nullptr: none were. */
template <class T>
answer settle(PyObject *obj, const options &asked, const dlshim_array &from,
              struct DLManagedTensorVersioned **made) {
    *made = nullptr;
    if (!has_extents(obj, asked, from)) {
        return why();
    }
    return elements_of<T>::convert(obj, asked, from, made) ? answer::taken : answer::failed;
}
/* dlshim_release(), which may run Python, beside an exception. */
inline void release_beside(struct DLManagedTensorVersioned *tensor) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    dlshim_release(tensor);
    PyErr_Restore(type, error, traceback);
}
template <class Array> class parameter; /* of nanobind and pybind11 */
} // namespace detail

/* Memory that is yours until the end of this object, on any thread, with or without the GIL. */
template <class T, int Rank = any_rank, class... More> class array : public view<T, Rank> {
  public:
    array() : tensor_(nullptr), flags_(0) {}
    /* Needs the GIL; throws python_error. */
    explicit array(PyObject *obj) : array() { need(take(obj)); }
    explicit array(PyObject *obj, const options &more) : array() { need(take(obj, more)); }
    array(array &&other) noexcept : array() { swap(other); }
    array &operator=(array &&other) noexcept {
        array(std::move(other)).swap(*this); /* what was here goes last, and now */
        return *this;
    }
    array(const array &) = delete;
    array &operator=(const array &) = delete;
    ~array() { hold(nullptr); }

    uint64_t flags() const { return flags_; } /* DLSHIM_READ_ONLY and the like */

    /* The same without throwing: false with a Python exception. */
    bool take(PyObject *obj) {
        return ask(obj, detail::usual_question<T, Rank, More...>()) == detail::answer::taken;
    }
    bool take(PyObject *obj, const options &more) {
        return ask(obj, detail::question<T, Rank, More...>(more)) == detail::answer::taken;
    }
    void swap(array &other) noexcept {
        std::swap(tensor_, other.tensor_);
        std::swap(flags_, other.flags_);
        std::swap<view<T, Rank>>(*this, other);
    }

  private:
    friend class detail::parameter<array>;
    static void need(bool taken) {
        if (!taken) {
            throw python_error();
        }
    }
    detail::answer ask(PyObject *obj, const options &asked) {
        struct DLManagedTensorVersioned *tensor, *made;
        if (dlshim_import(obj, &asked.request, &tensor) < 0) {
            return detail::why();
        }
        const auto said = detail::settle<T>(obj, asked, dlshim_look(tensor, nullptr), &made);
        if (said != detail::answer::taken || made != nullptr) {
            detail::release_beside(tensor);
            tensor = made;
        }
        if (said == detail::answer::taken) {
            hold(tensor);
        }
        return said;
    }
    /* The memory of before goes last: its deleter may run Python, which may come back to this object. */
    void hold(struct DLManagedTensorVersioned *tensor) {
        struct DLManagedTensorVersioned *before = tensor_;
        tensor_ = tensor;
        flags_ = 0;
        this->look_at(tensor ? dlshim_look(tensor, &flags_) : dlshim_array());
        dlshim_release(before);
    }
    struct DLManagedTensorVersioned *tensor_;
    uint64_t flags_;
};

/* Memory of an object until the end of the block.  Keep the object and the GIL meanwhile; neither
 * copied nor moved, so that it cannot be kept. */
template <class T, int Rank = any_rank, class... More> class borrowed : public view<T, Rank> {
  public:
    explicit borrowed(PyObject *obj) { ask(obj, detail::usual_question<T, Rank, More...>()); }
    explicit borrowed(PyObject *obj, const options &more) {
        ask(obj, detail::question<T, Rank, More...>(more));
    }
    borrowed(const borrowed &) = delete;
    borrowed &operator=(const borrowed &) = delete;
    ~borrowed() { dlshim_borrow_end(&view_); }

    uint64_t flags() const { return view_.flags; }

  private:
    /* dlshim gets the address of a local: with that of a member, the compiler would have to read shape
     * and strides again after each element of int64_t that is written. */
    void ask(PyObject *obj, const options &asked) {
        dlshim_view given;
        struct DLManagedTensorVersioned *made;
        if (dlshim_borrow(obj, &asked.request, &given) < 0) {
            throw python_error();
        }
        const auto said = detail::settle<T>(obj, asked, given.array, &made);
        if (said != detail::answer::taken || made != nullptr) {
            detail::release_beside(given.owner);
            given.owner = made;
        }
        if (said != detail::answer::taken) {
            throw python_error();
        }
        if (made != nullptr) {
            given.array = dlshim_look(made, &given.flags);
        }
        this->look_at(given.array);
        view_ = given;
    }
    dlshim_view view_;
};

namespace detail {
template <class U, class T, int Rank, class F>
bool visit_one(const view<T, Rank> &x, const dlshim_dtype &has, F &f) {
    const dlshim_dtype wants = dtype_of<U>::value();
    const char *data = static_cast<const char *>(x.as_c().data) + x.as_c().byte_offset;
    if (memcmp(&has, &wants, sizeof has) != 0
        || reinterpret_cast<uintptr_t>(data) % alignof(U) != 0) {
        return false;
    }
    using element = typename std::conditional<std::is_const<T>::value, const U, U>::type;
    f(view<element, Rank>(x.as_c()));
    return true;
}
template <class T, int Rank, class F> bool visit_any(const view<T, Rank> &, F &, types<>) {
    return false;
}
template <class T, int Rank, class F, class U, class... More>
bool visit_any(const view<T, Rank> &x, F &f, types<U, More...>) {
    return visit_one<U>(x, x.as_c().dtype, f) || visit_any(x, f, types<More...>());
}
/* Whether a shape has so many elements. */
inline bool has_elements(const int64_t *shape, int32_t ndim, size_t count) {
    uint64_t product = 1;
    bool fits = true;
    for (int32_t i = 0; i < ndim; i++) {
        const uint64_t extent = static_cast<uint64_t>(shape[i]);
        fits = fits && shape[i] >= 0 && (extent == 0 || product <= UINT64_MAX / extent);
        product *= extent;
    }
    return fits && product == count;
}
template <class Values> void drop_values(void *values) { delete static_cast<Values *>(values); }
/* The last axes, as many as lie in memory like a single one: `count` elements, `step` apart.
 * axes: how many stand before them. */
struct run {
    int32_t axes;
    int64_t count, step;
};
template <class T, int Rank> run last_run(const view<T, Rank> &x) {
    run last = {x.ndim(), 1, 1};
    while (last.axes > 0) {
        const int64_t stride = x.stride(last.axes - 1);
        if (last.count != 1 && stride != last.count * last.step) {
            break;
        }
        last.step = last.count == 1 ? stride : last.step;
        last.count *= x.shape(--last.axes);
    }
    return last;
}
/* Where a run begins, in elements from element zero.  place: how many runs come before it in
 * row-major order. */
template <class T, int Rank>
int64_t run_offset(const view<T, Rank> &x, int32_t axes, int64_t place) {
    int64_t offset = 0;
    /* There are no more axes than Rank, which compilers warn of if it is not said. */
    const int32_t most = Rank != any_rank && axes > Rank ? Rank : axes;
    for (int32_t axis = most - 1; axis > 0; axis--) {
        offset += place % x.shape(axis) * x.stride(axis);
        place /= x.shape(axis);
    }
    return axes > 0 ? offset + place * x.stride(0) : 0;
}
} // namespace detail

/* Call f with each element, in row-major order, whatever the strides are. */
template <class T, int Rank, class F> void each(const view<T, Rank> &x, F &&f) {
    const int64_t size = x.size(); /* of 0: the other extents may be endless */
    const detail::run last = size != 0 ? detail::last_run(x) : detail::run{0, 1, 1};
    for (int64_t place = 0; place < size / last.count; place++) {
        T *at = x.data() + detail::run_offset(x, last.axes, place);
        for (int64_t i = 0; i < last.count; i++) {
            f(at[i * last.step]);
        }
    }
}

/* Call f with a view of the elements' own type: bool, the integers, float, double, complex of both,
 * and More: visit<dlshim::float16, dlshim::bfloat16>(x, f), or other types that have a dtype_of.
 * false: it is another dtype, or its memory is not aligned for that type, and f is not called.
 * options.request.alignment = 8 has such memory copied. */
template <class... More, class T, int Rank, class F> bool visit(const view<T, Rank> &x, F &&f) {
    static_assert(std::is_void<T>::value, "visit() is for view<void> and view<const void>");
    return detail::visit_any(
        x, f,
        detail::types<bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t,
                      float, double, std::complex<float>, std::complex<double>, More...>());
}

/* A new reference to a dlshim.Tensor that owns the values, which are moved into it and not copied: a
 * std::vector, or what else owns its elements and has data() and size().  They are the elements of
 * an array of that shape, in row-major order.  Needs the GIL; throws python_error. */
template <class Values>
PyObject *export_values(Values values, const int64_t *shape, int32_t ndim) {
    using given = typename std::remove_pointer<decltype(values.data())>::type;
    using element = typename std::remove_const<given>::type;
    std::unique_ptr<Values> owner(new Values(std::move(values)));
    if (!detail::has_elements(shape, ndim, owner->size())) {
        PyErr_Format(PyExc_ValueError, "%zu values are no array of this shape", owner->size());
        throw python_error();
    }
    const dlshim_array array = {const_cast<element *>(owner->data()), 1, 0, ndim,
                                dtype_of<element>::value(), shape, nullptr, 0};
    PyObject *tensor =
        dlshim_export_array(&array, std::is_const<given>::value ? DLSHIM_READ_ONLY : 0, owner.get(),
                            detail::drop_values<Values>, nullptr);
    if (tensor == nullptr) {
        throw python_error();
    }
    owner.release();
    return tensor;
}
template <class Values>
PyObject *export_values(Values values, std::initializer_list<int64_t> shape) {
    return export_values(std::move(values), shape.begin(), static_cast<int32_t>(shape.size()));
}
/* Of one dimension. */
template <class Values> PyObject *export_values(Values values) {
    const int64_t count = static_cast<int64_t>(values.size());
    return export_values(std::move(values), &count, 1);
}

} // namespace dlshim

#ifdef DLSHIM_BINDER_
namespace dlshim {
namespace detail {
struct exactly {
    static void ask(options &more) { more.converts = false; }
};
template <class...> struct has_last : std::false_type {};
template <class First, class... More>
struct has_last<First, More...>
    : std::integral_constant<bool, std::is_same<First, last>::value || has_last<More...>::value> {};

/* An exception that waits. */
class raised {
  public:
    raised() : error_(nullptr) {}
    raised(const raised &) = delete;
    raised &operator=(const raised &) = delete;
    /* One that nobody got is lost, but for an interruption, which comes again as a signal. */
    ~raised() { drop(); }

    explicit operator bool() const { return error_ != nullptr; }
    void drop() {
        if (error_ != nullptr && PyErr_GivenExceptionMatches(error_, PyExc_KeyboardInterrupt)) {
            PyErr_SetInterrupt();
        }
        Py_XDECREF(error_);
        error_ = nullptr;
    }
    void fetch() {
        PyObject *type, *traceback;
        PyErr_Fetch(&type, &error_, &traceback);
        PyErr_NormalizeException(&type, &error_, &traceback);
        if (traceback != nullptr) {
            PyException_SetTraceback(error_, traceback);
        }
        Py_XDECREF(type);
        Py_XDECREF(traceback);
    }
    /* To another place, which gives up what it had. */
    void move_to(raised &other) {
        std::swap(error_, other.error_);
        drop();
    }
    void restore() {
        PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(error_));
        Py_INCREF(type);
        PyErr_Restore(type, error_, PyException_GetTraceback(error_));
        error_ = nullptr;
    }
    /* The binders' callers expect TypeError of an argument that does not fit. */
    void become_type_error() {
        if (PyErr_GivenExceptionMatches(error_, PyExc_TypeError)) {
            return;
        }
        PyObject *text = PyObject_Str(error_), *cause = error_;
        if (text != nullptr) {
            PyErr_SetObject(PyExc_TypeError, text);
            Py_DECREF(text);
        }
        fetch();
        PyException_SetCause(error_, cause);
    }

    /* Goes on where nothing waits. */
    void raise() {
        if (error_ != nullptr) {
            restore();
            throw python_error();
        }
    }

  private:
    PyObject *error_;
};

/* Where the caster of a container, which has those of its elements, takes their exceptions. */
class collector {
  public:
    collector(raised &error, PyObject *container)
        : error_(error), container_(container), outer_(innermost()) {
        innermost() = this;
    }
    collector(const collector &) = delete;
    collector &operator=(const collector &) = delete;
    ~collector() { innermost() = outer_; }
    /* Whether there is an exception: the container around takes it, if it is one with a collector. */
    static bool give(raised &error) {
        const bool is = static_cast<bool>(error);
        if (is && innermost() != nullptr) {
            error.move_to(innermost()->error_);
        }
        return is;
    }

    static bool is_around() { return innermost() != nullptr; }
    /* The object by which two tries of one argument are known: its container, if it has one. */
    static const PyObject *argument(const PyObject *obj) {
        return innermost() != nullptr ? innermost()->container_ : obj;
    }

  private:
    DLSHIM_HIDDEN_ static collector *&innermost() {
        static thread_local collector *now = nullptr;
        return now;
    }
    raised &error_;
    const PyObject *container_;
    collector *outer_;
};

/* The last array of this thread that a parameter was asked for: how many before it, and how. */
struct asked_last {
    unsigned count;
    bool converts;
    DLSHIM_HIDDEN_ static asked_last &here() {
        static thread_local asked_last now = {0, false};
        return now;
    }
};

/* The turn of one argument.  It leaves word where the binder did not come to the argument, because one
 * before that did not fit.  An array among those before tells that it was the second time. */
template <class Parameter> class turn {
  public:
    explicit turn(bool came) : before_(asked_last::here().count), came_(came) {}
    turn(const turn &) = delete;
    turn &operator=(const turn &) = delete;
    ~turn() {
        const asked_last &last = asked_last::here();
        if (!came_ && (last.count == before_ || !last.converts)) {
            Parameter::was_skipped();
        }
    }
    void came() { came_ = true; }

  private:
    unsigned before_;
    bool came_;
};

/* An argument of a function that may have overloads.  A binder goes through them without conversions,
 * and then, with conversions, once more; a function without overloads it asks the second way at once.
 * It makes a parameter for each try of each overload, and does not tell which it is.  So each leaves word
 * the first time, and takes one away where it refuses the second time: where it finds none, nothing else
 * can take the argument, and the user may read why it is refused.  A call that another overload took
 * leaves words that are too many, and then a reason is not told; those of another argument are dropped. */
template <class T, int Rank, class... More> class parameter<array<T, Rank, More...>> {
  public:
    using value_type = array<T, Rank, More...>;
    parameter() : turn_(collector::is_around()) {}
    parameter(const parameter &) = delete;
    parameter &operator=(const parameter &) = delete;
    static void has_ended() { left() = words(); }
    static void was_skipped() { left().skipped += left().skipped < most_words; }

    /* Whether the binder shall go on with this overload: with the array, or to the exception. */
    bool take(PyObject *obj, bool converts) {
        const words before = left(); /* of this call: Python code that runs now may make others */
        error_.drop();
        const answer said = value_.ask(obj, converts ? usual_question<T, Rank, More..., convert>()
                                                     : usual_question<T, Rank, More..., exactly>());
        turn_.came();
        asked_last::here().count++;
        asked_last::here().converts = converts;
        left() = before;
        if (said == answer::taken) {
            return true;
        }
        const bool is_end = is_alone(collector::argument(obj), converts)
            || (converts && has_last<More...>::value);
        if (said == answer::refused && (is_no_array() || !is_end)) {
            PyErr_Clear();
            return false;
        }
        error_.fetch();
        if (said == answer::refused) {
            error_.become_type_error();
        }
        return true;
    }
    bool has_failed() const { return static_cast<bool>(error_); }
    /* The same, and the container around has the exception then. */
    bool gives_up() const { return collector::give(error_); }
    /* For a container, or for the function. */
    value_type &get() {
        error_.raise();
        return value_;
    }
    /* For the function alone: the search has ended. */
    value_type &get_at_end() {
        has_ended();
        return get();
    }

  private:
    /* dlshim.UnsupportedObjectError: an argument of another kind, for which the binder has words. */
    static bool is_no_array() {
        return PyErr_ExceptionMatches(PyExc_TypeError) && PyErr_ExceptionMatches(PyExc_AttributeError);
    }
    static constexpr unsigned most_words = 15;
    struct words {
        const PyObject *argument; /* compared, and nothing else */
        unsigned refused, skipped;
        words() : argument(nullptr), refused(0), skipped(0) {}
    };
    DLSHIM_HIDDEN_ static words &left() {
        static thread_local words now;
        return now;
    }
    /* Leaves word, or takes one away. */
    static bool is_alone(const PyObject *argument, bool converts) {
        words &word = left();
        if (!converts) {
            word.refused = word.argument == argument ? word.refused : 0;
            word.refused += word.refused < most_words;
            word.argument = argument;
            return false;
        }
        unsigned &count = word.refused != 0 ? word.refused : word.skipped;
        const bool found = count != 0;
        count -= found;
        return !found;
    }
    value_type value_;
    mutable raised error_;
    turn<parameter> turn_;
};
} // namespace detail
} // namespace dlshim

namespace DLSHIM_BINDER_ {
namespace detail {
/* What a parameter is in signatures: typing.Annotated[dlshim.typing.Array, "float64[:, 2]"].  Type checkers
 * know the first, and people read the second. */
template <class T, class = void> struct dlshim_name {
    static constexpr auto value = const_name("a dtype of its own");
};
template <> struct dlshim_name<void> { static constexpr auto value = const_name("any dtype"); };
template <> struct dlshim_name<bool> { static constexpr auto value = const_name("bool"); };
template <class T>
struct dlshim_name<T, typename std::enable_if<(dlshim::dtype_of<T>::bits > 0)>::type> {
    static constexpr uint8_t code = dlshim::dtype_of<T>::code;
    static constexpr auto value =
        const_name<code == 0 || code == 1>(
            const_name<code == 1>("uint", "int"),
            const_name<code == 4>(const_name("bfloat"),
                                  const_name<code == 5>("complex", "float")))
        + const_name<dlshim::dtype_of<T>::bits>();
};
template <int64_t... Extents> struct dlshim_extents;
template <> struct dlshim_extents<> { static constexpr auto value = const_name("()"); };
template <int64_t Last> struct dlshim_extents<Last> {
    static constexpr auto value =
        const_name<(Last < 0)>(const_name(":"), const_name<static_cast<size_t>(Last < 0 ? 0 : Last)>());
};
template <int64_t First, int64_t Second, int64_t... More>
struct dlshim_extents<First, Second, More...> {
    static constexpr auto value = dlshim_extents<First>::value + const_name(", ")
        + dlshim_extents<Second, More...>::value;
};
/* As many as there are dimensions, or those of dlshim::shape. */
template <int Rank, int64_t... Any> struct dlshim_rank : dlshim_rank<Rank - 1, -1, Any...> {};
template <int64_t... Any> struct dlshim_rank<0, Any...> : dlshim_extents<Any...> {};
template <int Rank, class... More> struct dlshim_shape : dlshim_rank<Rank> {};
template <int Rank, int64_t... Extents, class... More>
struct dlshim_shape<Rank, dlshim::shape<Extents...>, More...> : dlshim_extents<Extents...> {};
template <int Rank, class First, class... More>
struct dlshim_shape<Rank, First, More...> : dlshim_shape<Rank, More...> {};
template <bool Any, int Rank, class... More> struct dlshim_brackets {
    static constexpr auto value =
        const_name("[") + dlshim_shape<Rank, More...>::value + const_name("]");
};
template <int Rank, class... More> struct dlshim_brackets<true, Rank, More...> {
    static constexpr auto value = const_name("");
};
template <class T, int Rank, class... More>
struct type_caster<dlshim::array<T, Rank, More...>>
    : dlshim::detail::parameter<dlshim::array<T, Rank, More...>> {
    using Value = dlshim::array<T, Rank, More...>;
    static constexpr auto title =
        const_name("typing.Annotated[dlshim.typing.Array, \"")
        + dlshim_name<typename std::remove_const<T>::type>::value
        + dlshim_brackets<Rank == dlshim::any_rank, Rank, More...>::value
        + const_name<std::is_const<T>::value>("\"]", ", written\"]");
#if defined(NB_VERSION_MAJOR)
    static constexpr auto Name = title;
    template <class U> using Cast = movable_cast_t<U>;
    /* What has a caster in its own, such as std::optional, asks before it casts: it may not throw. */
    template <class> bool can_cast() const { return !this->gives_up(); }
    bool from_python(handle src, uint32_t flags, cleanup_list *) noexcept {
        return this->take(src.ptr(), (flags & static_cast<uint32_t>(cast_flags::convert)) != 0);
    }
    explicit operator Value *() { return &this->get_at_end(); }
    explicit operator Value &() { return this->get_at_end(); }
    explicit operator Value &&() { return std::move(this->get()); }
#else
    static constexpr auto name = title;
    template <class U> using cast_op_type = movable_cast_op_type<U>;
    bool load(handle src, bool converts) {
        const bool is = this->take(src.ptr(), converts);
        if (this->has_failed()) {
            this->get(); /* which throws */
        }
        return is;
    }
    operator Value *() { return &this->get_at_end(); }
    operator Value &() { return this->get_at_end(); }
    operator Value &&() && { return std::move(this->get()); }
#endif
};

/* Others than dlshim::array keep no memory alive, or not without the GIL. */
template <class T, int Rank> struct type_caster<dlshim::view<T, Rank>> {
    static_assert(sizeof(T *) == 0, "a parameter is a dlshim::array, which keeps its memory, and no view");
};
template <class T, int Rank, class... More> struct type_caster<dlshim::borrowed<T, Rank, More...>> {
    static_assert(sizeof(T *) == 0,
                  "a parameter is a dlshim::array, and no dlshim::borrowed, which needs the GIL and the "
                  "object: take a handle, and make the dlshim::borrowed of its ptr()");
};

#if defined(NB_VERSION_MAJOR)
/* nanobind's casters of containers may throw nothing, and refuse where a caster of theirs would.  In these
 * the exception of an array waits until the function's turn comes. */
template <class Array, template <class...> class Caster, class Container, class... Inner>
struct dlshim_container : Caster<Container, Inner...> {
    static_assert(dlshim::detail::is_complete<Caster<Container, Inner...>>::value,
                  "include the file of nanobind/stl/ that has this container of arrays");
    dlshim_container() : turn_(dlshim::detail::collector::is_around()) {}
    bool from_python(handle src, uint32_t flags, cleanup_list *cleanup) noexcept {
        turn_.came();
        const dlshim::detail::collector here(error_, src.ptr());
        return Caster<Container, Inner...>::from_python(src, flags, cleanup) || error_;
    }
    template <class> bool can_cast() const { return !dlshim::detail::collector::give(error_); }
    explicit operator Container *() { return &get_at_end(); }
    explicit operator Container &() { return get_at_end(); }
    explicit operator Container &&() { return std::move(get()); }

  private:
    Container &get() {
        error_.raise();
        return this->value;
    }
    Container &get_at_end() {
        dlshim::detail::parameter<Array>::has_ended();
        return get();
    }
    mutable dlshim::detail::raised error_;
    dlshim::detail::turn<dlshim::detail::parameter<Array>> turn_;
};
template <typename Optional, typename T> struct optional_caster;
template <typename List, typename Entry> struct list_caster;
template <typename Dict, typename Key, typename Value> struct dict_caster;
template <class T, int Rank, class... More>
struct type_caster<std::optional<dlshim::array<T, Rank, More...>>>
    : dlshim_container<dlshim::array<T, Rank, More...>, optional_caster,
                       std::optional<dlshim::array<T, Rank, More...>>,
                       dlshim::array<T, Rank, More...>> {};
template <class T, int Rank, class... More, class A>
struct type_caster<std::vector<dlshim::array<T, Rank, More...>, A>>
    : dlshim_container<dlshim::array<T, Rank, More...>, list_caster,
                       std::vector<dlshim::array<T, Rank, More...>, A>,
                       dlshim::array<T, Rank, More...>> {};
template <class Key, class T, int Rank, class... More, class Less, class A>
struct type_caster<std::map<Key, dlshim::array<T, Rank, More...>, Less, A>>
    : dlshim_container<dlshim::array<T, Rank, More...>, dict_caster,
                       std::map<Key, dlshim::array<T, Rank, More...>, Less, A>, Key,
                       dlshim::array<T, Rank, More...>> {};
template <class Key, class T, int Rank, class... More, class Hash, class Same>
struct type_caster<std::unordered_map<Key, dlshim::array<T, Rank, More...>, Hash, Same>>
    : dlshim_container<dlshim::array<T, Rank, More...>, dict_caster,
                       std::unordered_map<Key, dlshim::array<T, Rank, More...>, Hash, Same>, Key,
                       dlshim::array<T, Rank, More...>> {};
#endif
} // namespace detail
} // namespace DLSHIM_BINDER_
#endif
#endif
