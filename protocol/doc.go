// Package protocol implements the wire format of an agent server. It has the models of the
// inference and coaching contract, their strict decoding and their encoding. It validates a
// response against its request, and has the OpenAPI document of the HTTP API. It imports nothing else of this module.
//
// The models are structs with tags, see model.go. Decoder and encoder go by the tags, over the tokens of a
// JSON library. Libraries that decode into structs stop at the first problem, and write an agent's JSON
// again instead of copying its bytes.
//
// Every model has a Decode function for a whole body. Decoding is strict: names are case-sensitive, and
// unknown fields, duplicate names, invalid UTF-8, trailing data and wrong types are refused. An integer must
// be an integer literal. The error is always [Problems]: all problems of the body, each with its path and
// what to write instead, or the one place where it stops being JSON.
//
// JSON that belongs to an agent (memory, attributes, tools, extra_keys, arguments, ...) stays [Raw]: the
// bytes of the body without whitespace between tokens. It refers to the body, which must not change
// afterwards. [Get], [Members], [AppendMember] and related functions read and edit raw values, and copy all
// other bytes unchanged.
//
// Every model has AppendJSON, which appends compact JSON, and MarshalJSON. Raw values are copied.
package protocol
