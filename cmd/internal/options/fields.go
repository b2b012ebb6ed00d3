package options

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// fieldName is a configuration field in an error, such as Config.Agent.MaxNewTokens.
var fieldName = regexp.MustCompile(`\bConfig((?:\.[A-Z][A-Za-z0-9]*)+)`)

// NameFields returns err with the flags of options in place of the fields that it names, such as --max-new-tokens for
// Config.MaxNewTokens. The command's options must fill config, a pointer to a struct. A name may leave out the first
// parts of the field's path; of several fields it means the one with the shortest path.
func (c *Command) NameFields(config any, err error) error {
	if err == nil {
		return nil
	}
	flags := map[string]string{} // by path
	c.walk(reflect.ValueOf(config).Elem(), "", flags)
	text := fieldName.ReplaceAllStringFunc(err.Error(), func(name string) string {
		best := ""
		for path := range flags {
			if strings.HasSuffix(path, strings.TrimPrefix(name, "Config")) && (best == "" || len(path) < len(best)) {
				best = path
			}
		}
		if best == "" {
			return name
		}
		return "--" + flags[best]
	})
	return &named{text, err}
}

// walk finds the options that fill the fields of a struct.
func (c *Command) walk(v reflect.Value, path string, flags map[string]string) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		at := path + "." + field.Name
		if field.Anonymous { // its fields are named as the outer struct's
			at = path
		}
		for _, o := range c.Options {
			for _, s := range o.Value.settings {
				if s.Value.field == v.Field(i).Addr().Interface() {
					flags[at] = o.Name + " " + s.Name
				}
			}
			if o.Value.field == v.Field(i).Addr().Interface() {
				flags[at] = o.Name
			}
		}
		if field.Type.Kind() == reflect.Struct {
			c.walk(v.Field(i), at, flags)
		}
	}
}

// named is an error with another text.
type named struct {
	text string
	err  error
}

func (n *named) Error() string { return n.text }
func (n *named) Unwrap() error { return n.err }

// Problems gathers what is wrong with options, each under the name its user gave it.
type Problems struct {
	From Origins
	list []error
}

// Add notes what is wrong with an option.
func (p *Problems) Add(option, format string, args ...any) {
	p.list = append(p.list, fmt.Errorf("%s: %w", p.From.Name(option), fmt.Errorf(format, args...)))
}

// Err is all problems, nil without any.
func (p *Problems) Err() error { return errors.Join(p.list...) }
