/* Settings: environment over $XDG_CONFIG_HOME/zluda-rr/config.toml over defaults. A value that a setting cannot have is
 * reported once per process and ignored. */
#define _GNU_SOURCE
#include "zrr.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { SWITCH, CHOICE, LIST, SECONDS, PATH };
enum { CONFIG_BYTES = 16384 };

typedef struct {
    const char *variable;
    enum kind kind;
    const char *choices, *initial;
    size_t at;
} option;

static const option options[] = {
#define OPTION(field, variable, kind, choices, initial, meaning) \
    {variable, kind, choices, initial, offsetof(zrr_settings, field)},
#include "options.def"
#undef OPTION
};
enum { OPTIONS = sizeof options / sizeof options[0] };

static char *value_of(zrr_settings *settings, int index) { return (char *)settings + options[index].at; }

static bool one_of(const char *value, const char *choices) {
    const size_t length = strlen(value);
    for (const char *word = choices; *word != 0;) {
        const size_t size = strcspn(word, "|");
        if (size == length && memcmp(word, value, size) == 0) return true;
        word += size + (word[size] == '|');
    }
    return false;
}

static bool acceptable(const option *what, const char *value) {
    if (strlen(value) >= ZRR_VALUE_BYTES) return false;
    for (const char *at = value; *at != 0; ++at)
        if ((unsigned char)*at < 32) return false;
    switch (what->kind) {
        case SWITCH: return one_of(value, "0|1");
        case CHOICE: return one_of(value, what->choices);
        case SECONDS: {
            char *end = NULL;
            const long seconds = strtol(value, &end, 10);
            return isdigit((unsigned char)value[0]) && *end == 0 && seconds >= 1 && seconds <= 600;
        }
        case LIST:
        case PATH: break;
    }
    return true;
}

/* Names separated by single commas, blanks gone: equal lists give equal keys. */
static void tidy_list(char *value) {
    char *out = value;
    for (const char *at = value; *at != 0;) {
        at += strspn(at, ", \t");
        const size_t size = strcspn(at, ", \t");
        if (size == 0) continue;
        if (out != value) *out++ = ',';
        memmove(out, at, size);
        out += size;
        at += size;
    }
    *out = 0;
}

static void report(const zrr_settings *settings, int index, const char *value, const char *from) {
    static atomic_uint reported[OPTIONS];
    if (atomic_exchange(&reported[index], 1) != 0) return;
    const option *what = &options[index];
    const char *expected = what->kind == SWITCH    ? "0|1"
                           : what->kind == CHOICE  ? what->choices
                           : what->kind == SECONDS ? "1 to 600"
                                                   : "a shorter value without control characters";
    zrr_log(settings, ZRR_INFO, "%s%s=%.80s is ignored; expected %s", from, what->variable, value, expected);
}

static void take(zrr_settings *settings, int index, const char *value, const char *from) {
    if (!acceptable(&options[index], value)) {
        report(settings, index, value, from);
        return;
    }
    memcpy(value_of(settings, index), value, strlen(value) + 1);
    if (options[index].kind == LIST) tidy_list(value_of(settings, index));
}

/* ---- config.toml: `NAME = value` lines; a value is a string, an integer, true, false or a one-line array of strings.
 * What this does not understand is left to the command line to complain about. ---- */

static bool toml_string(const char **at, char *out, size_t size) {
    const char quote = **at;
    if (quote != '"' && quote != '\'') return false;
    size_t used = 0;
    for (++*at; **at != 0 && **at != quote; ++*at) {
        if (quote == '"' && **at == '\\') return false;
        if (used + 1 >= size) return false;
        out[used++] = **at;
    }
    if (**at != quote) return false;
    ++*at;
    out[used] = 0;
    return true;
}

static bool toml_value(const char *at, char *out, size_t size) {
    if (*at == '"' || *at == '\'') return toml_string(&at, out, size);
    if (*at == '[') {
        size_t used = 0;
        out[0] = 0;
        for (++at; *(at += strspn(at, ", \t")) != ']';) {
            if (used > 0 && used + 1 < size) out[used++] = ',';
            if (!toml_string(&at, out + used, size - used)) return false;
            used += strlen(out + used);
        }
        return true;
    }
    const size_t length = strcspn(at, " \t\r#");
    if (length == 0 || length >= size) return false;
    memcpy(out, at, length);
    out[length] = 0;
    if (strcmp(out, "true") == 0) strcpy(out, "1");
    if (strcmp(out, "false") == 0) strcpy(out, "0");
    return true;
}

static void config_line(zrr_settings *settings, const char *line) {
    line += strspn(line, " \t");
    const size_t name = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    if (name == 0) return;
    const char *value = line + name + strspn(line + name, " \t");
    if (*value != '=') return;
    value += 1 + strspn(value + 1, " \t");
    char text[ZRR_VALUE_BYTES];
    for (int i = 0; i < OPTIONS; ++i)
        if (strlen(options[i].variable) == name && memcmp(options[i].variable, line, name) == 0) {
            if (toml_value(value, text, sizeof text))
                take(settings, i, text, "config.toml: ");
            else
                report(settings, i, value, "config.toml: ");
        }
}

/* ---- Folders. A relative path in an XDG variable means where the program was started, wherever it is now. ---- */

static const char *const xdg[] = {"XDG_CACHE_HOME", "XDG_CONFIG_HOME"};
static _Atomic(char *) absolute[2];

const char *zrr_absolute_xdg(const char *variable) {
    const int index = strcmp(variable, xdg[1]) == 0;
    const char *value = getenv(variable);
    if (value == NULL || value[0] == 0 || value[0] == '/') return NULL;
    char *known = atomic_load(&absolute[index]);
    if (known != NULL) return known;
    const size_t room = ZRR_VALUE_BYTES + strlen(value) + strlen(variable) + 3;
    char *made = malloc(room), *folder = malloc(ZRR_VALUE_BYTES);
    if (made != NULL && folder != NULL && getcwd(folder, ZRR_VALUE_BYTES) != NULL) {
        snprintf(made, room, "%s=%s/%s", variable, folder, value);
        if (atomic_compare_exchange_strong(&absolute[index], &known, made)) known = made, made = NULL;
    }
    free(made);
    free(folder);
    return known;
}

/* The home folder of the password file; the C library's own functions may load others and need a large stack. */
static void password_home(char *home, size_t size) {
    enum { READ = 1 << 17 };
    home[0] = 0;
    char *text = malloc(READ + 1), *rest = NULL;
    const int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    const ssize_t got = text != NULL && fd >= 0 ? read(fd, text, READ) : -1;
    if (fd >= 0) close(fd);
    if (got > 0) text[got] = 0;
    for (char *line = got > 0 ? strtok_r(text, "\n", &rest) : NULL; line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *field = NULL; /* name:password:user:group:comment:home:shell */
        for (int i = 0; i < 2 && line != NULL; ++i) line = strchr(line, ':') != NULL ? strchr(line, ':') + 1 : NULL;
        if (line == NULL || strtoul(line, &field, 10) != geteuid() || field == line || *field != ':') continue;
        for (int i = 0; i < 3 && field != NULL; ++i) field = strchr(field + (i > 0), ':');
        if (field == NULL) continue;
        const size_t length = strcspn(field + 1, ":");
        if (field[1] == '/' && length < size) snprintf(home, size, "%.*s", (int)length, field + 1);
        break;
    }
    free(text);
}

static bool home_path(char *path, size_t size, const char *variable, const char *fallback, const char *rest) {
    const char *base = getenv(variable), *home = getenv("HOME"), *made = zrr_absolute_xdg(variable);
    if (made != NULL) base = strchr(made, '=') + 1;
    int used = -1;
    if (base != NULL && base[0] == '/') {
        used = snprintf(path, size, "%s/%s", base, rest);
    } else {
        char *account = malloc(ZRR_VALUE_BYTES);
        if (account != NULL && (home == NULL || home[0] != '/')) password_home(account, ZRR_VALUE_BYTES), home = account;
        if (home != NULL && home[0] == '/') used = snprintf(path, size, "%s/%s/%s", home, fallback, rest);
        free(account);
    }
    return used > 0 && (size_t)used < size;
}

static void read_config(zrr_settings *settings) {
    char path[ZRR_VALUE_BYTES];
    if (!home_path(path, sizeof path, "XDG_CONFIG_HOME", ".config", "zluda-rr/config.toml")) return;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    char *text = malloc(CONFIG_BYTES);
    struct stat about;
    ssize_t got = -1;
    if (text != NULL && fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) got = read(fd, text, CONFIG_BYTES - 1);
    close(fd);
    if (got > 0) {
        text[got] = 0;
        char *rest = NULL;
        for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
            config_line(settings, line);
    }
    free(text);
}

zrr_settings *zrr_settings_read(void) {
    zrr_settings *settings = calloc(1, sizeof *settings);
    if (settings == NULL) return NULL;
    for (int i = 0; i < OPTIONS; ++i) memcpy(value_of(settings, i), options[i].initial, strlen(options[i].initial) + 1);
    read_config(settings);
    for (int i = 0; i < OPTIONS; ++i) {
        const char *value = getenv(options[i].variable);
        if (value != NULL && value[0] != 0) take(settings, i, value, "");
    }
    return settings;
}

bool zrr_cache_path(const zrr_settings *settings, char *path, size_t size) {
    if (settings->cache_dir[0] == 0) return home_path(path, size, "XDG_CACHE_HOME", ".cache", "zluda-rr/hook");
    const int used = snprintf(path, size, "%s/hook", settings->cache_dir);
    return used > 0 && (size_t)used < size;
}
