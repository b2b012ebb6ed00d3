package options

import (
	"fmt"
	"strings"
)

// Settings are options that share a flag: KEY=VALUE,... in text, an object in JSON. Each layer sets only
// the keys that it names. The keys are the options' names.
func Settings(list ...Option) Value { return settings(list, "") }

// SettingsAfter are Settings whose first option, which may be a URL, needs no key in text:
// VALUE,KEY=VALUE,...
func SettingsAfter(list ...Option) Value {
	v := settings(list, list[0].Name)
	v.field, v.words = list[0].Value.field, list[0].Value.words
	return v
}

// settings are Settings. Text without a key is of the option named first, if there is one.
func settings(list []Option, first string) Value {
	v := Value{settings: list, form: asSettings}
	v.parse = func(s string) error {
		for part := range strings.SplitSeq(s, ",") {
			key, text, ok := strings.Cut(part, "=")
			if first != "" && (!ok || strings.ContainsAny(key, ":/?")) {
				key, text, ok = first, part, true
			}
			if !ok {
				return fmt.Errorf("got %q, want KEY=VALUE; the keys are %s", part, strings.Join(v.Keys(), ", "))
			}
			o, err := v.setting(key)
			if err == nil {
				err = o.Value.Set(text)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSpace(key), err)
			}
		}
		return nil
	}
	v.show = func() string {
		words := make([]string, len(list))
		for i, o := range list {
			words[i] = o.Name + "=" + o.Value.String()
		}
		return strings.TrimPrefix(strings.TrimPrefix(strings.Join(words, ","), first+"="), ",")
	}
	return v
}

// setting finds an option by its key, in which _ may stand for -.
func (v Value) setting(key string) (Option, error) {
	key = strings.ReplaceAll(strings.TrimSpace(key), "_", "-")
	for _, o := range v.settings {
		if o.Name == key {
			return o, nil
		}
	}
	return Option{}, fmt.Errorf("is unknown; the keys are %s", strings.Join(v.Keys(), ", "))
}

// Keys returns the keys of Settings. Other values have none.
func (v Value) Keys() []string { return names(v.settings) }

// usage is the text of an option, with the texts of its settings.
func (o Option) usage() string {
	text := o.Usage
	for _, s := range o.Value.settings {
		text += fmt.Sprintf(" %s=%s: %s", s.Name, s.Arg, s.Usage)
	}
	return text
}
