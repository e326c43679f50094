// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/reserved_words.h"

#include <algorithm>
#include <iterator>
#include <regex>
#include <sstream>
#include <vector>

#include "runtime/embedded.h"

namespace kdagen::emit {
namespace {

constexpr const char* keywords = R"(
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
    int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq)";

/// Functions and variables that a header declares, and lower-case macros.
constexpr const char* library = R"(
    abs alloca assert blockDim blockIdx div exp exp2 exp2f expf fabsf fma fmaf fmaxf fminf gamma gridDim index
    isnan j0 j1 jn linux log log1p log1pf log2 logf math_errhandling max min pow powf rand read rsqrt signal
    signbit sqrt sqrtf stderr stdin stdout tanh tanhf threadIdx time unix warpSize write y0 y1 yn)";

/// What the emitted text calls its own.
constexpr const char* own_words = R"(
    Rows Tiles Tile Arguments arguments aligned shared tile number head group segment row lane column block step
    step_row first_row rows_here place own_row own_tile owned i b load_row store_row row_sum row_dot
    row_inverse_norm row_inverse_norm_to_zero row_max column_of column_numbers ColumnNumbers numbers slot phase
    operands arrivals slots record unit after here next made where before begin groups heads head_number
    group_number last_segment first last end used used_end which width results first_term sequence_start
    first_tile zeros part parts term terms sum half bf16 fp16 main
    select Slot largest_float)";

/// What the headers declare at namespace scope, but for CUDA's vectors; of the mathematical functions those for double.
constexpr const char* globals = R"(
    a64l abort abs acos acosh aligned_alloc alloca asctime asin asinh asprintf at_quick_exit atan atan2 atanh atexit
    atof atoi atol atomicAdd atomicAnd atomicCAS atomicDec atomicExch atomicInc atomicMax atomicMin atomicOr
    atomicSub atomicXor ballot basename bcmp bcopy blkcnt64_t blkcnt_t blksize_t bsearch bzero caddr_t calloc
    canonicalize canonicalize_file_name cbrt ceil clearenv clearerr clock clock64 clockid_t comparison_fn_t copysign cos
    cosh cospi ctermid ctime cuda cuserid daylight dev_t difftime dim3 div double2int double2ll double2uint
    double2ull double_t dprintf drand48 drem dysize ecvt environ erand48 erf erfc erfcinv erfcx erfinv exit exp
    exp10 exp2 explicit_bzero expm1 fabs fclose fcloseall fcvt fd_mask fdim fdopen feof ferror fflush ffs fgetc
    fgetpos fgets fileno finite float2double float_t flockfile floor fma fmax fmaximum fmaxmag fmemopen fmin
    fminimum fminmag fmod fopen fopencookie fpclassify fpos64_t fpos_t fprintf fputc fputs fread free freopen frexp
    fromfp fromfpx fscanf fseek fseeko fsetpos fsid_t ftell ftello ftrylockfile funlockfile fwrite gamma gcvt getc
    getchar getdate getdelim getenv getline getloadavg getpt getsubopt getw gid_t gmtime grantpt hypot id_t ilogb
    index initstate ino64_t ino_t int16_t int2double int64_t int8_t intptr_t isalnum isalpha isascii isblank
    iscanonical iscntrl isctype isdigit iseqsig isfinite isgraph isgreater isinf isless islower isnan isnormal
    isprint ispunct issignaling isspace isupper isxdigit iszero itimerspec j0 j1 jn jrand48 key_t l64a labs lcong48
    ldexp ldiv lgamma ll2double llabs lldiv llmax llmin llogb llrint llround locale_t localeconv localtime loff_t
    log log10 log1p log2 logb longjmp lrand48 lrint lround malloc max max_align_t mblen mbstowcs mbtowc memccpy
    memchr memcmp memcpy memfrob memmem memmove mempcpy memrchr memset min mktemp mktime mode_t modf mrand48 nan
    nanosleep nearbyint nextafter nextdown nexttoward nextup nlink_t norm norm3d norm4d normcdf normcdfinv nrand48
    nullptr_t off64_t off_t on_exit open_memstream optarg optind pclose perror pid_t popen pow printf pselect
    ptrdiff_t ptsname putc putchar putenv puts putw qsort quad_t quick_exit raise rand random rawmemchr rcbrt
    realloc reallocarray realpath remainder remove remquo rename renameat renameat2 rewind rhypot rindex rint rnorm
    rnorm3d rnorm4d round roundeven rpmatch rsqrt scalb scalbln scalbn scanf secure_getenv seed48 select setbuf
    setbuffer setenv setjmp setlinebuf setlocale setstate setvbuf sigevent signbit signgam significand sigset_t sin
    sincos sincospi sinh sinpi size_t snprintf sprintf sqrt srand srand48 srandom sscanf ssize_t std stpcpy stpncpy
    strcasecmp strcasestr strcat strchr strchrnul strcmp strcoll strcpy strcspn strdup strerror strfromd strfromf
    strfroml strfry strftime strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strptime strrchr
    strsep strsignal strspn strstr strtod strtof strtok strtol strtold strtoq strtoul strtouq strverscmp strxfrm
    suseconds_t syncthreads_and syncthreads_count syncthreads_or system tan tanh tempnam tgamma time time_t timegm
    timelocal timespec timespec_get timespec_getres timeval timex timezone tm tmpfile tmpnam toascii tolower
    totalorder totalordermag toupper trap trunc tzname tzset ufromfp ufromfpx uid_t uint uint16_t uint2double
    uint64_t uint8_t uintptr_t ull2double ullmax ullmin ulong umax umin ungetc unlockpt unsetenv useconds_t ushort
    va_list valloc vasprintf vdprintf vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf wcstombs wctomb y0
    y1 yn)";

std::vector<std::string> words_of(const char* list) {
  std::istringstream stream(list);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

const std::set<std::string>& reserved_words() {
  static const auto* words = [] {
    auto* found = new std::set<std::string>;
    for (const char* list : {keywords, library, own_words})
      for (std::string& word : words_of(list)) found->insert(std::move(word));
    return found;
  }();
  return *words;
}

const std::set<std::string>& global_names() {
  static const auto* names = [] {
    auto* found = new std::set<std::string>;
    for (const std::string& word : words_of(globals))
      for (const char* suffix : {"", "f", "l", "f32", "f64", "f32x", "f64x"}) found->insert(word + suffix);
    for (const char* type : {"char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "longlong",
                             "ulonglong", "float", "double"})
      for (const char* size : {"1", "2", "3", "4", "4_16a", "4_32a"})
        for (const char* start : {"", "make_"}) found->insert(std::string(start) + type + size);
    return found;
  }();
  return *names;
}

const std::set<std::string>& prelude_names() {
  static const auto* names = [] {
    const std::regex declaration(
        R"((?:KD_(?:SEPARATE_)?FUNCTION[^;{(]*?|struct (?:alignas\(\d+\) )?)\b(\w+)(?:<\w+>)?\s*[({;])");
    auto* found = new std::set<std::string>;
    for (const runtime::EmbeddedFile& file : runtime::runtime_headers()) {
      if (!file.path.ends_with(".cuh")) continue;
      const std::string text(file.text);
      for (std::sregex_iterator match(text.begin(), text.end(), declaration), end; match != end; ++match)
        found->insert((*match)[1]);
    }
    return found;
  }();
  return *names;
}

bool belongs_to_headers(const std::string& name) {
  for (const char* start : {"cuda", "kdagen_", "KD_", "M_"})
    if (name.starts_with(start)) return true;
  const auto small = [](char c) { return c >= 'a' && c <= 'z'; };
  return name.size() > 2 && name[0] != '_' && std::none_of(name.begin(), name.end(), small);
}

}  // namespace kdagen::emit
