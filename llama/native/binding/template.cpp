// Chat templates (llama-common's Jinja engine, run directly so that any variable
// can be given) and llama-common's own parsing of model output.
#include "shim.h"
#include "shim_internal.h"

#include <chrono>
#include <string>

#include "chat.h"
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

extern "C" bool agd_template_render(const struct agd_template * t, const char * vars, size_t len, int64_t now,
                                    struct agd_part ** parts, size_t * n_parts, char ** err) {
    return agd::guard(err, false, [&] {
        common_json values = common_json::parse(std::string(vars, len));
        if (!values.is_object()) {
            agd::set(err, "the variables are not a JSON object");
            return false;
        }
        if (!values.contains("bos_token")) {
            values["bos_token"] = t->bos;
        }
        if (!values.contains("eos_token")) {
            values["eos_token"] = t->eos;
        }
        jinja::context ctx(t->source);
        ctx.current_time = static_cast<std::time_t>(now);
        jinja::global_from_json(ctx, values, /*mark_input=*/true);
        jinja::runtime runtime(ctx);
        const auto     result = jinja::runtime::gather_string_parts(runtime.execute(t->program));
        const auto &   found  = result->as_string().parts;

        *n_parts = found.size();
        *parts   = static_cast<agd_part *>(std::calloc(found.size() + 1, sizeof(agd_part)));
        if (*parts == nullptr) {
            throw std::bad_alloc();
        }
        for (size_t i = 0; i < found.size(); i++) {
            (*parts)[i] = { agd::dup(found[i].val), found[i].val.size(), found[i].is_input };
            if ((*parts)[i].text == nullptr) {
                agd_parts_free(*parts, i);
                throw std::bad_alloc();
            }
        }
        return true;
    });
}

extern "C" void agd_parts_free(struct agd_part * parts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        std::free(parts[i].text);
    }
    std::free(parts);
}

struct agd_chat {
    common_chat_params        params;
    common_chat_parser_params parser;
};

extern "C" struct agd_chat * agd_chat_new(const struct llama_model * model, const char * tmpl, const char * request,
                                          char ** err) {
    return agd::guard(err, static_cast<agd_chat *>(nullptr), [&] {
        const common_json            req       = common_json::parse(request);
        common_chat_templates_ptr    templates = common_chat_templates_init(model, tmpl);
        common_chat_templates_inputs inputs;
        inputs.messages            = common_chat_msgs_parse_oaicompat(req.at("messages"));
        inputs.parallel_tool_calls = true;
        inputs.enable_thinking     = req.value("enable_thinking", false);
        inputs.reasoning_format    = COMMON_REASONING_FORMAT_DEEPSEEK; // thoughts apart from the content
        inputs.now                 = std::chrono::system_clock::time_point(std::chrono::seconds(req.value("now", int64_t(0))));
        if (req.contains("tools")) {
            inputs.tools = common_chat_tools_parse_oaicompat(req.at("tools"));
        }
        auto c                     = std::make_unique<agd_chat>();
        c->params                  = common_chat_templates_apply(templates.get(), inputs);
        c->parser                  = common_chat_parser_params(c->params);
        c->parser.reasoning_format = inputs.reasoning_format;
        if (!c->params.parser.empty()) {
            c->parser.parser.load(c->params.parser);
        }
        return c.release();
    });
}

extern "C" void agd_chat_free(struct agd_chat * c) {
    delete c;
}

extern "C" char * agd_chat_prompt(const struct agd_chat * c) {
    return agd::dup(c->params.prompt);
}

extern "C" char * agd_chat_grammar(const struct agd_chat * c) {
    return agd::dup(c->params.grammar);
}

extern "C" char * agd_chat_parse(const struct agd_chat * c, const char * text, size_t len, char ** err) {
    return agd::guard(err, static_cast<char *>(nullptr), [&] {
        const common_chat_msg msg   = common_chat_parse(std::string(text, len), /*is_partial=*/false, c->parser);
        common_json           calls = common_json::array();
        for (const auto & call : msg.tool_calls) {
            calls.push_back({ { "name", call.name }, { "arguments", call.arguments }, { "id", call.id } });
        }
        common_json out = common_json::object();
        out["content"]    = msg.content;
        out["reasoning"]  = msg.reasoning_content;
        out["tool_calls"] = calls;
        return agd::dup(out.dump_safe());
    });
}
