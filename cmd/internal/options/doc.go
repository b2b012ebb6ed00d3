// Package options fills the fields of a program's configuration from a JSON file, environment variables and flags. A
// program lists its options once, in a [Command]; help page and reference are made of it. Errors say which option is
// wrong, where it was set, and what was expected.
package options
