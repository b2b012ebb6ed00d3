// Package protocol implements the wire format of an agent server: the models of the inference and coaching contract,
// their strict decoding and encoding, the check of a response against its request, and the OpenAPI document.
//
// The models are structs with tags, see model.go. Decoder and encoder go by the tags, over the tokens of a JSON
// library: libraries that decode into structs stop at the first problem, and write an agent's JSON again instead of
// copying its bytes.
//
// Every model has a Decode function for a whole body. Names are case-sensitive; unknown fields, duplicate names,
// invalid UTF-8, trailing data and wrong types are refused. The error is always [Problems]: all problems of the body,
// each with its path and what to write instead, or the one place where it stops being JSON.
//
// JSON that belongs to an agent (memory, attributes, tools, extra_keys, arguments, ...) stays [Raw]. It refers to the
// body, which must not change afterwards. [Get], [Members], [AppendMember] and related functions read and edit it.
// Every model has AppendJSON, which appends compact JSON, and MarshalJSON.
package protocol
