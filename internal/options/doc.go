// Package options fills the fields of a program's configuration from a JSON file,
// environment variables and flags. It also prints the help page and the reference in
// Markdown, and names options in the errors of other packages.
//
// A program lists its options once, in a [Command]. Each [Option] holds a [Value], which
// points at the field that it fills. Errors say which option is wrong, where it was set,
// and what was expected.
package options
