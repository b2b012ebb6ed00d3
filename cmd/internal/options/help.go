package options

import (
	"fmt"
	"io"
	"strings"
)

const (
	helpWidth  = 88 // columns of the help page
	helpIndent = 28 // column where an option's text begins
)

// WriteHelp prints the help page.
func (c *Command) WriteHelp(w io.Writer) {
	fmt.Fprint(w, c.Intro)
	for _, list := range c.groups() {
		fmt.Fprintf(w, "\n%s\n", list[0].Group)
		for _, o := range list {
			o.writeHelp(w)
		}
	}
	if c.Outro != "" {
		fmt.Fprintf(w, "\n%s", c.Outro)
	}
}

// groups are the options of each heading, in the order of their first ones. Options without a group are on no page.
func (c *Command) groups() (list [][]Option) {
	at := map[string]int{}
	for _, o := range c.Options {
		if i, known := at[o.Group]; known {
			list[i] = append(list[i], o)
		} else if o.Group != "" {
			at[o.Group] = len(list)
			list = append(list, []Option{o})
		}
	}
	return list
}

// usage is the flag as a user types it.
func (o Option) flag() string { return strings.TrimSpace("--" + o.Name + " " + o.Arg) }

// otherwise is the default in brackets and quotes, "" when it is nothing to show.
func (o Option) otherwise(quote string) string {
	switch d := o.Value.String(); d {
	case "", "0", "false", "0s":
		return ""
	default:
		return " [" + quote + d + quote + "]"
	}
}

// explained is the text of the option, with its default.
func (o Option) explained() string { return o.usage() + o.otherwise("") }

// writeHelp prints one option: its flag, its text and its default.
func (o Option) writeHelp(w io.Writer) {
	flag := "  " + o.flag()
	if len(flag) > helpIndent-2 {
		fmt.Fprintln(w, flag)
		flag = ""
	}
	for _, line := range wrap(o.explained(), helpWidth-helpIndent) {
		fmt.Fprintf(w, "%-*s%s\n", helpIndent, flag, line)
		flag = ""
	}
}

// wrap breaks text between words into lines of at most width bytes.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// WriteMarkdown prints the options as lists, one for each group, under headings of a level.
func (c *Command) WriteMarkdown(w io.Writer, level int) {
	text := strings.NewReplacer("<", "&lt;", "*", `\*`)
	for _, list := range c.groups() {
		fmt.Fprintf(w, "\n%s %s\n\n", strings.Repeat("#", level), list[0].Group)
		for _, o := range list {
			fmt.Fprintf(w, "- `%s`%s: %s\n", o.flag(), o.otherwise("`"), flagInText.ReplaceAllString(text.Replace(o.usage()), "`$0`"))
		}
	}
}
