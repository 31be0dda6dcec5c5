/* NVTX's C++ forms: ranges that end with a scope, domains and registered strings that are types. What is used most of
 * NVIDIA's nvtx3.hpp, version 1; names as published. */
#pragma once
#define NVTX3_CPP_DEFINITIONS_V1_0 /* what others look for */
#include "nvToolsExt.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace nvtx3 {
inline namespace v1 {

class domain {
  public:
    struct global {};
    domain(domain const &) = delete;
    domain &operator=(domain const &) = delete;
    template <typename D = global> static domain const &get() noexcept {
        static domain const made(name_of<D>(0));
        return made;
    }
    operator nvtxDomainHandle_t() const noexcept { return handle_; }

  private:
    template <typename D> static auto name_of(int) noexcept -> decltype(static_cast<const char *>(D::name)) { return D::name; }
    template <typename D> static const char *name_of(long) noexcept {
        static_assert(std::is_same<D, global>::value, "a domain needs a static member `name`");
        return nullptr;
    }
    explicit domain(const char *name) noexcept : handle_(name != nullptr ? nvtxDomainCreateA(name) : nullptr) {}
    nvtxDomainHandle_t handle_;
};

struct rgb {
    using component_type = std::uint8_t;
    constexpr rgb(component_type r, component_type g, component_type b) noexcept : red(r), green(g), blue(b) {}
    component_type red, green, blue;
};

struct argb : rgb {
    constexpr argb(component_type a, component_type r, component_type g, component_type b) noexcept : rgb(r, g, b), alpha(a) {}
    component_type alpha;
};

class color {
  public:
    using value_type = std::uint32_t;
    constexpr explicit color(value_type code) noexcept : value_(code) {}
    constexpr color(argb c) noexcept : value_(pack(c.alpha, c.red, c.green, c.blue)) {}
    constexpr color(rgb c) noexcept : value_(pack(0xff, c.red, c.green, c.blue)) {}
    constexpr value_type get_value() const noexcept { return value_; }

  private:
    static constexpr value_type pack(value_type a, value_type r, value_type g, value_type b) noexcept {
        return a << 24 | r << 16 | g << 8 | b;
    }
    value_type value_;
};

class category {
  public:
    using id_type = std::uint32_t;
    constexpr explicit category(id_type id) noexcept : id_(id) {}
    constexpr id_type get_id() const noexcept { return id_; }

  private:
    id_type id_;
};

template <typename D = domain::global> class named_category_in : public category {
  public:
    template <typename C> static named_category_in const &get() noexcept {
        static named_category_in const made(C::id, C::name);
        return made;
    }
    named_category_in(id_type id, const char *name) noexcept : category(id) { nvtxDomainNameCategoryA(domain::get<D>(), id, name); }
    named_category_in(id_type id, const wchar_t *name) noexcept : category(id) {
        nvtxDomainNameCategoryW(domain::get<D>(), id, name);
    }
};
using named_category = named_category_in<domain::global>;

template <typename D = domain::global> class registered_string_in {
  public:
    template <typename M> static registered_string_in const &get() noexcept {
        static registered_string_in const made(M::message);
        return made;
    }
    explicit registered_string_in(const char *text) noexcept : handle_(nvtxDomainRegisterStringA(domain::get<D>(), text)) {}
    explicit registered_string_in(std::string const &text) noexcept : registered_string_in(text.c_str()) {}
    explicit registered_string_in(const wchar_t *text) noexcept : handle_(nvtxDomainRegisterStringW(domain::get<D>(), text)) {}
    explicit registered_string_in(std::wstring const &text) noexcept : registered_string_in(text.c_str()) {}
    nvtxStringHandle_t get_handle() const noexcept { return handle_; }

  private:
    nvtxStringHandle_t handle_;
};
using registered_string = registered_string_in<domain::global>;

class message {
  public:
    using value_type = nvtxMessageValue_t;
    message(const char *text) noexcept : type_(NVTX_MESSAGE_TYPE_ASCII) { value_.ascii = text; }
    message(std::string const &text) noexcept : message(text.c_str()) {}
    message(std::string &&) = delete;
    message(const wchar_t *text) noexcept : type_(NVTX_MESSAGE_TYPE_UNICODE) { value_.unicode = text; }
    message(std::wstring const &text) noexcept : message(text.c_str()) {}
    message(std::wstring &&) = delete;
    message(nvtxStringHandle_t handle) noexcept : type_(NVTX_MESSAGE_TYPE_REGISTERED) { value_.registered = handle; }
    template <typename D> message(registered_string_in<D> const &text) noexcept : message(text.get_handle()) {}
    value_type get_value() const noexcept { return value_; }
    nvtxMessageType_t get_type() const noexcept { return type_; }

  private:
    nvtxMessageType_t type_;
    value_type value_;
};

class payload {
  public:
    using value_type = nvtxEventAttributes_t::payload_t;
    explicit payload(std::int64_t value) noexcept : type_(NVTX_PAYLOAD_TYPE_INT64) { value_.llValue = value; }
    explicit payload(std::int32_t value) noexcept : type_(NVTX_PAYLOAD_TYPE_INT32) { value_.iValue = value; }
    explicit payload(std::uint64_t value) noexcept : type_(NVTX_PAYLOAD_TYPE_UNSIGNED_INT64) { value_.ullValue = value; }
    explicit payload(std::uint32_t value) noexcept : type_(NVTX_PAYLOAD_TYPE_UNSIGNED_INT32) { value_.uiValue = value; }
    explicit payload(float value) noexcept : type_(NVTX_PAYLOAD_TYPE_FLOAT) { value_.fValue = value; }
    explicit payload(double value) noexcept : type_(NVTX_PAYLOAD_TYPE_DOUBLE) { value_.dValue = value; }
    value_type get_value() const noexcept { return value_; }
    nvtxPayloadType_t get_type() const noexcept { return type_; }

  private:
    nvtxPayloadType_t type_;
    value_type value_{};
};

/* Of several arguments of one kind the first counts. */
class event_attributes {
  public:
    event_attributes() noexcept : attributes_{} {
        attributes_.version = NVTX_VERSION;
        attributes_.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    }
    template <typename... Args> explicit event_attributes(category const &c, Args const &...rest) noexcept : event_attributes(rest...) {
        attributes_.category = c.get_id();
    }
    template <typename... Args> explicit event_attributes(color const &c, Args const &...rest) noexcept : event_attributes(rest...) {
        attributes_.colorType = NVTX_COLOR_ARGB;
        attributes_.color = c.get_value();
    }
    template <typename... Args> explicit event_attributes(payload const &p, Args const &...rest) noexcept : event_attributes(rest...) {
        attributes_.payloadType = p.get_type();
        attributes_.payload = p.get_value();
    }
    template <typename... Args> explicit event_attributes(message const &m, Args const &...rest) noexcept : event_attributes(rest...) {
        attributes_.messageType = m.get_type();
        attributes_.message = m.get_value();
    }
    nvtxEventAttributes_t const *get() const noexcept { return &attributes_; }

  private:
    nvtxEventAttributes_t attributes_;
};

template <typename D = domain::global> class scoped_range_in {
  public:
    scoped_range_in() noexcept : scoped_range_in(event_attributes{}) {}
    explicit scoped_range_in(event_attributes const &event) noexcept { (void)nvtxDomainRangePushEx(domain::get<D>(), event.get()); }
    template <typename First, typename... Args, typename = typename std::enable_if<!std::is_same<event_attributes, typename std::decay<First>::type>::value>::type>
    explicit scoped_range_in(First const &first, Args const &...args) noexcept : scoped_range_in(event_attributes{first, args...}) {}
    scoped_range_in(scoped_range_in const &) = delete;
    scoped_range_in &operator=(scoped_range_in const &) = delete;
    ~scoped_range_in() noexcept { (void)nvtxDomainRangePop(domain::get<D>()); }
    void *operator new(std::size_t) = delete; /* ranges of a thread are nested */
};
using scoped_range = scoped_range_in<domain::global>;

struct range_handle {
    using value_type = nvtxRangeId_t;
    constexpr explicit range_handle(value_type id) noexcept : id_(id) {}
    constexpr range_handle() noexcept = default;
    constexpr explicit operator bool() const noexcept { return id_ != 0; }
    constexpr value_type get_value() const noexcept { return id_; }

  private:
    value_type id_ = 0;
};
inline constexpr bool operator==(range_handle a, range_handle b) noexcept { return a.get_value() == b.get_value(); }
inline constexpr bool operator!=(range_handle a, range_handle b) noexcept { return !(a == b); }

template <typename D = domain::global> range_handle start_range_in(event_attributes const &event) noexcept {
    return range_handle{nvtxDomainRangeStartEx(domain::get<D>(), event.get())};
}
template <typename D = domain::global, typename First, typename... Args, typename = typename std::enable_if<!std::is_same<event_attributes, First>::value>::type>
range_handle start_range_in(First const &first, Args const &...args) noexcept {
    return start_range_in<D>(event_attributes{first, args...});
}
template <typename... Args> range_handle start_range(Args const &...args) noexcept {
    return start_range_in<domain::global>(args...);
}
template <typename D = domain::global> void end_range_in(range_handle range) noexcept {
    nvtxDomainRangeEnd(domain::get<D>(), range.get_value());
}
inline void end_range(range_handle range) noexcept { end_range_in<domain::global>(range); }

template <typename D = domain::global> class unique_range_in {
  public:
    unique_range_in() noexcept : unique_range_in(event_attributes{}) {}
    explicit unique_range_in(event_attributes const &event) noexcept : handle_(start_range_in<D>(event)) {}
    template <typename First, typename... Args, typename = typename std::enable_if<!std::is_same<event_attributes, typename std::decay<First>::type>::value && !std::is_same<unique_range_in, typename std::decay<First>::type>::value>::type>
    explicit unique_range_in(First const &first, Args const &...args) noexcept : unique_range_in(event_attributes{first, args...}) {}
    unique_range_in(unique_range_in &&other) noexcept : handle_(other.handle_) { other.handle_ = range_handle{}; }
    unique_range_in &operator=(unique_range_in &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~unique_range_in() noexcept {
        if (handle_)
            end_range_in<D>(handle_);
    }

  private:
    range_handle handle_;
};
using unique_range = unique_range_in<domain::global>;

template <typename D = domain::global> void mark_in(event_attributes const &event) noexcept {
    nvtxDomainMarkEx(domain::get<D>(), event.get());
}
template <typename D = domain::global, typename First, typename... Args, typename = typename std::enable_if<!std::is_same<event_attributes, First>::value>::type>
void mark_in(First const &first, Args const &...args) noexcept {
    mark_in<D>(event_attributes{first, args...});
}
template <typename... Args> void mark(Args const &...args) noexcept { mark_in<domain::global>(args...); }

} // namespace v1
} // namespace nvtx3

#define NVTX3_V1_FUNC_RANGE_IN(D) \
    static ::nvtx3::v1::registered_string_in<D> const nvtx3_func_name__{__func__}; \
    static ::nvtx3::v1::event_attributes const nvtx3_func_attr__{nvtx3_func_name__}; \
    ::nvtx3::v1::scoped_range_in<D> const nvtx3_range__{nvtx3_func_attr__}
#define NVTX3_V1_FUNC_RANGE() NVTX3_V1_FUNC_RANGE_IN(::nvtx3::v1::domain::global)
#define NVTX3_FUNC_RANGE NVTX3_V1_FUNC_RANGE
#define NVTX3_FUNC_RANGE_IN NVTX3_V1_FUNC_RANGE_IN
