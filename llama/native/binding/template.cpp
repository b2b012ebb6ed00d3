// Chat templates. llama-common's Jinja engine is called directly, so that a caller can give any variable.
#include "api.h"
#include "errors.h"

#include <ctime>
#include <memory>
#include <string>

#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "json.h"

struct agd_template {
    jinja::program program;
    std::string    source;
    std::string    bos;
    std::string    eos;
};

extern "C" struct agd_template * agd_template_new(const char * source, size_t len, const char * bos, const char * eos,
                                                  char ** err) {
    return agd::guard(err, static_cast<agd_template *>(nullptr), [&] {
        jinja::lexer lexer;
        auto         lexed = lexer.tokenize(std::string(source, len));
        auto         t     = std::make_unique<agd_template>();
        t->program         = jinja::parse_from_tokens(lexed);
        t->source          = lexed.source;
        t->bos             = bos;
        t->eos             = eos;
        return t.release();
    });
}

extern "C" void agd_template_free(struct agd_template * t) {
    delete t;
}

extern "C" char * agd_template_render(const struct agd_template * t, const char * vars, size_t len, int64_t now,
                                      size_t * size, char ** err) {
    return agd::guard(err, static_cast<char *>(nullptr), [&]() -> char * {
        common_json values = common_json::parse(std::string(vars, len));
        if (!values.is_object()) {
            agd::set(err, "the variables are not a JSON object");
            return nullptr;
        }
        if (!values.contains("bos_token")) {
            values["bos_token"] = t->bos;
        }
        if (!values.contains("eos_token")) {
            values["eos_token"] = t->eos;
        }
        jinja::context ctx(t->source);
        ctx.current_time = static_cast<std::time_t>(now);
        jinja::global_from_json(ctx, values, /*mark_input=*/false);
        jinja::runtime    runtime(ctx);
        const auto        result = jinja::runtime::gather_string_parts(runtime.execute(t->program));
        const std::string text   = result->as_string().str();
        *size                    = text.size();
        return agd::dup(text);
    });
}
